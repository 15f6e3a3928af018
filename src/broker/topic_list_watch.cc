#include "broker/topic_list_watch.h"

#include "PulsarApi.pb.h"
#include "base/url_encoding.h"
#include "broker/broker.h"
#include "broker/session.h"
#include "metadata/metadata_store.h"
#include "wire/topics_hash.h"

namespace geminga {

TopicListWatch::TopicListWatch(Session& session, std::uint64_t id, std::string name_space,
                               TopicsPattern pattern)
    : session_(session), id_(id), namespace_(std::move(name_space)), pattern_(std::move(pattern)) {}

TopicListWatch::~TopicListWatch() = default;

void TopicListWatch::listen() {
  watch_ =
      session_.broker().metadata().watch("/managed-ledgers/" + namespace_ + "/persistent",
                                         [this](const MetadataEvent& event) { changed(event); });
}

void TopicListWatch::changed(const MetadataEvent& event) {
  const bool created = event.kind == MetadataEvent::Kind::Created;
  if (!created && event.kind != MetadataEvent::Kind::Deleted) return;
  const std::size_t prefix =
      sizeof("/managed-ledgers/") - 1 + namespace_.size() + sizeof("/persistent/") - 1;
  if (event.path.size() <= prefix || event.path.find('/', prefix) != std::string::npos)
    return;  // a cursor
  const Result<std::string> local = url_decode(std::string_view(event.path).substr(prefix));
  if (!local) return;
  const std::string topic = "persistent://" + namespace_ + "/" + *local;
  const Result<TopicName> name = TopicName::parse(topic);
  if (!name || name->is_system() || !pattern_.matches(topic)) return;
  if (ready_) {
    apply(topic, created);
  } else {
    early_.emplace_back(topic, created);
  }
}

void TopicListWatch::start(std::vector<std::string> topics) {
  topics_.insert(std::make_move_iterator(topics.begin()), std::make_move_iterator(topics.end()));
  ready_ = true;
  for (const auto& [topic, exists] : std::exchange(early_, {})) apply(topic, exists);
}

void TopicListWatch::apply(const std::string& topic, bool exists) {
  const bool news = exists ? topics_.insert(topic).second : topics_.erase(topic) > 0;
  if (!news) return;
  pulsar::proto::BaseCommand command;
  command.set_type(pulsar::proto::BaseCommand::WATCH_TOPIC_UPDATE);
  auto& update = *command.mutable_watchtopicupdate();
  update.set_watcher_id(id_);
  if (exists) {
    update.add_new_topics(topic);
  } else {
    update.add_deleted_topics(topic);
  }
  update.set_topics_hash(topics_hash({topics_.begin(), topics_.end()}));
  session_.reply(command);
}

}  // namespace geminga
