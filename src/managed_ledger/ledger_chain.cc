#include "managed_ledger/ledger_chain.h"

#include "base/clock.h"
#include "base/log.h"

namespace geminga {

LedgerChain::LedgerChain(ManagedLedgerEnv env, std::string name, ManagedLedgerConfig config,
                         PersistSink* sink)
    : env_(env),
      name_(std::move(name)),
      path_(managed_ledger_path(name_)),
      config_(config),
      sink_(sink),
      handles_(*env.ledgers) {}

LedgerChain::~LedgerChain() { env_.shard->forget(*this); }

std::vector<LedgerSummary> LedgerChain::ledgers() const {
  std::vector<LedgerSummary> summaries;
  summaries.reserve(list_.size());
  for (const LedgerSlot& slot : list_) {
    summaries.push_back({slot.id, slot.entries, slot.bytes, slot.closed_ms});
  }
  return summaries;
}

Status LedgerChain::closed_status() const {
  return Status::Closed("the managed ledger " + name_ + " is closed");
}

std::map<std::string, std::string> LedgerChain::ledger_metadata() const {
  return {
      {"application", "pulsar"}, {"component", "managed-ledger"}, {"pulsar/managed-ledger", name_}};
}

Task<Status> LedgerChain::put_info(Info info) {
  auto result =
      co_await env_.metadata->put(path_, info.SerializeAsString(), {.expected_version = version_});
  if (result.is(ErrorCode::BadVersion)) {
    co_return Status::Fenced("another broker has written " + path_ + " (version " +
                             std::to_string(version_) +
                             " was ours); close the topic and look it up again");
  }
  if (!result) co_return result.status();
  version_ = result->stat.version;
  info_ = std::move(info);
  co_return Status::ok();
}

void LedgerChain::fence(const Status& why) {
  if (state_ == State::Fenced) return;
  GM_LOG_WARN("managed ledger {} is fenced: {}", name_, why.message());
  state_ = State::Fenced;
  refusal_ = why;
  refuse_all(why);
}

Task<Status> LedgerChain::set_properties(std::map<std::string, std::string> properties) {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  auto lock = co_await structure_.lock();
  if (fenced()) co_return refusal_;
  const Status status = co_await put_with_properties(info_, std::move(properties));
  if (status.is(ErrorCode::Fenced)) fence(status);
  co_return status;
}

Task<Status> LedgerChain::put_with_properties(Info info,
                                              std::map<std::string, std::string> properties) {
  sink_->add_properties(properties);
  info.clear_properties();
  for (const auto& [key, value] : properties) {
    auto* property = info.add_properties();
    property->set_key(key);
    property->set_value(value);
  }
  const Status status = co_await put_info(std::move(info));
  if (status) properties_ = std::move(properties);
  co_return status;
}

Task<Result<std::unique_ptr<ManagedLedger>>> open_managed_ledger(ManagedLedgerEnv env,
                                                                 std::string name,
                                                                 ManagedLedgerConfig config,
                                                                 PersistSink* sink,
                                                                 bool create_if_missing) {
  auto chain = std::make_unique<LedgerChain>(env, std::move(name), config, sink);
  const Status status = co_await chain->open(create_if_missing);
  if (!status) co_return status;
  co_return Result<std::unique_ptr<ManagedLedger>>(std::move(chain));
}

Task<Result<bool>> managed_ledger_exists(MetadataStore& metadata, std::string name) {
  auto value = co_await metadata.get(managed_ledger_path(name));
  if (!value) co_return value.status();
  co_return value->has_value();
}

Task<Result<std::vector<std::string>>> list_managed_ledgers(MetadataStore& metadata,
                                                            std::string prefix) {
  auto children = co_await metadata.children(managed_ledger_path(prefix));
  if (!children) co_return children.status();
  for (std::string& child : *children) child = prefix + "/" + child;
  co_return std::move(*children);
}

}  // namespace geminga
