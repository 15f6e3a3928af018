// Compaction of a topic: begin it, and how it goes.
#include <boost/json/object.hpp>

#include "broker/topic_compaction.h"
#include "server/admin/admin.h"

namespace geminga {

namespace json = boost::json;

namespace {

Status cannot_be_compacted() {
  return Status::NotAllowed("Compaction of a non-persistent topic is not allowed");
}

std::string_view name_of(TopicCompaction::State state) {
  switch (state) {
    case TopicCompaction::State::NotRun: return "NOT_RUN";
    case TopicCompaction::State::Running: return "RUNNING";
    case TopicCompaction::State::Success: return "SUCCESS";
    case TopicCompaction::State::Error: return "ERROR";
  }
  return "?";
}

Answer compact(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_parts(admin, *name, [](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->compaction() == nullptr) co_return cannot_be_compacted();
    Status started = topic->compaction()->start();
    if (!started) co_return started;
    co_await topic->compaction()->marked();
    co_return no_content();
  });
}

Answer status(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_topic(admin, *name, [](std::shared_ptr<Topic> topic) -> Answer {
    const TopicCompaction* compaction = topic->compaction();
    if (compaction == nullptr) co_return cannot_be_compacted();
    json::object out;
    out["status"] = name_of(compaction->state());
    out["lastError"] = compaction->last_error();
    co_return json_answer(out);
  });
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/compaction", "State of the topic's compaction", status},
    {HttpMethod::Put, GM_TOPIC "/compaction", "Compact the topic", compact},
};

}  // namespace

void add_compaction_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
