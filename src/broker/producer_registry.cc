#include "broker/producer_registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "PulsarApi.pb.h"
#include "base/log.h"
#include "wire/command.h"

namespace geminga {

namespace {

bool wants_exclusive(ProducerAccessMode mode) { return mode != ProducerAccessMode::Shared; }

Buffer fenced_frame(std::uint64_t request_id, const std::string& message) {
  pulsar::proto::BaseCommand command;
  command.set_type(pulsar::proto::BaseCommand::ERROR);
  auto& error = *command.mutable_error();
  error.set_request_id(request_id);
  error.set_error(pulsar::proto::ProducerFenced);
  error.set_message(message);
  return encode_command(command);
}

}  // namespace

Status ProducerRegistry::admit(const Producer& producer) const {
  const bool exclusive_taken = exclusive_ != nullptr || !waiting_.empty();
  const std::string holder = exclusive_ != nullptr ? exclusive_->name() : std::string("(waiting)");
  switch (producer.access_mode()) {
    case ProducerAccessMode::Shared:
      if (exclusive_taken) {
        return Status::ProducerBusy("Topic has an existing exclusive producer: " + holder);
      }
      return Status::ok();
    case ProducerAccessMode::Exclusive:
      if (exclusive_taken) {
        return Status::ProducerFenced("Topic has an existing exclusive producer: " + holder);
      }
      if (!producers_.empty()) return Status::ProducerFenced("Topic has existing shared producers");
      break;
    case ProducerAccessMode::WaitForExclusive:
    case ProducerAccessMode::ExclusiveWithFencing: break;
  }
  // It had exclusive access once, lost its connection, and someone else had the topic in between.
  if (producer.claimed_topic_epoch() && epoch_ && *producer.claimed_topic_epoch() < *epoch_) {
    return Status::ProducerFenced(
        fmt::format("Topic epoch has already moved. Current epoch: {}, Producer epoch: {}", *epoch_,
                    *producer.claimed_topic_epoch()));
  }
  return Status::ok();
}

Task<Result<ProducerGrant>> ProducerRegistry::add(std::shared_ptr<Producer> producer) {
  // A reconnecting exclusive producer is its own predecessor: that one is gone for good.
  if (const auto same = producers_.find(producer->name());
      same != producers_.end() && producer->is_successor_of(*same->second)) {
    auto old = same->second;
    old->set_state(Producer::State::Closed);
    remove(old);
  }
  const bool occupied = exclusive_ != nullptr || !producers_.empty();
  if (producer->access_mode() == ProducerAccessMode::WaitForExclusive && occupied) {
    producer->set_state(Producer::State::Waiting);
    waiting_.push_back(producer);
    ProducerGrant grant;
    grant.producer = std::move(producer);
    grant.ready = false;
    co_return grant;
  }
  GM_CO_RETURN_IF_ERROR(admit(*producer));
  if (producer->access_mode() == ProducerAccessMode::ExclusiveWithFencing) fence_out_all();
  if (wants_exclusive(producer->access_mode()))
    co_return co_await add_exclusive(std::move(producer));
  GM_CO_RETURN_IF_ERROR(co_await take_name(producer));
  ProducerGrant grant;
  grant.topic_epoch = epoch_;
  grant.producer = std::move(producer);
  co_return grant;
}

Task<Result<ProducerGrant>> ProducerRegistry::add_exclusive(std::shared_ptr<Producer> producer) {
  exclusive_ = producer;
  std::uint64_t epoch = epoch_ ? *epoch_ + 1 : 0;
  if (producer->claimed_topic_epoch()) epoch = *producer->claimed_topic_epoch();
  Status status = co_await store_epoch_(epoch);
  if (status && exclusive_ == producer) {
    epoch_ = epoch;
    status = co_await take_name(producer);
  }
  if (status && exclusive_ != producer) {  // it left, or was fenced out, while it waited
    const auto at = producers_.find(producer->name());
    if (at != producers_.end() && at->second == producer) producers_.erase(at);
    status = Status::ProducerFenced("Topic has an existing exclusive producer");
  }
  if (!status) {
    if (exclusive_ == producer) exclusive_ = nullptr;
    promote_next();
    co_return status;
  }
  ProducerGrant grant;
  grant.topic_epoch = epoch;
  grant.producer = std::move(producer);
  co_return grant;
}

// One producer a name. The old one stays if its connection answers.
Task<Status> ProducerRegistry::take_name(std::shared_ptr<Producer> producer) {
  for (;;) {
    if (max_producers_ > 0 && producers_.size() >= max_producers_) {
      co_return Status::ProducerBusy(fmt::format("Topic '{}' reached max producers limit", topic_));
    }
    const auto at = producers_.find(producer->name());
    if (at == producers_.end()) {
      producers_[producer->name()] = producer;
      co_return Status::ok();
    }
    auto old = at->second;
    const bool same_connection =
        old->outbox().peer().connection_id == producer->outbox().peer().connection_id;
    bool alive = same_connection;
    if (!same_connection && old->outbox().connected()) {
      auto outbox = old->outbox_ptr();
      alive = co_await outbox->probe_alive(liveness_timeout_);
    }
    if (alive) {
      co_return Status::ProducerBusy(fmt::format(
          "Producer with name '{}' is already connected to topic '{}'", producer->name(), topic_));
    }
    old->set_state(Producer::State::Closed);
    remove(old);
  }
}

void ProducerRegistry::remove(const std::shared_ptr<Producer>& producer) {
  std::erase(waiting_, producer);
  const auto at = producers_.find(producer->name());
  if (at != producers_.end() && at->second == producer) producers_.erase(at);
  if (exclusive_ == producer) exclusive_ = nullptr;
  promote_next();
}

void ProducerRegistry::fence_out_all() {
  for (const auto& waiting : std::exchange(waiting_, {})) {
    waiting->set_state(Producer::State::Fenced);
    waiting->outbox().send_frame(
        fenced_frame(waiting->request_id(), "Topic has an existing exclusive producer"));
    waiting->outbox().forget_producer(waiting->id());
  }
  for (const auto& [name, producer] : std::exchange(producers_, {})) {
    GM_LOG_INFO("{}: producer {} is fenced out", topic_, name);
    producer->set_state(Producer::State::Fenced);
  }
  if (exclusive_ != nullptr) exclusive_->set_state(Producer::State::Fenced);
  exclusive_ = nullptr;
}

void ProducerRegistry::close_all() {
  for (const auto& waiting : std::exchange(waiting_, {})) {
    waiting->set_state(Producer::State::Closed);
    waiting->outbox().send_close_producer(waiting->id());
  }
  for (const auto& [name, producer] : std::exchange(producers_, {})) {
    producer->set_state(Producer::State::Closed);
    producer->outbox().send_close_producer(producer->id());
  }
  exclusive_ = nullptr;
}

void ProducerRegistry::promote_next() {
  if (exclusive_ != nullptr || !producers_.empty() || waiting_.empty()) return;
  auto next = waiting_.front();
  waiting_.pop_front();
  exclusive_ = next;
  if (!spawn(shard_, gate_, [this, next]() -> Task<void> { co_await promote(next); }))
    exclusive_ = nullptr;
}

Task<void> ProducerRegistry::promote(std::shared_ptr<Producer> producer) {
  producer->set_state(Producer::State::Active);
  const Result<ProducerGrant> grant = co_await add_exclusive(producer);
  if (grant) {
    producer->outbox().send_frame(encode_command(producer_success(
        producer->request_id(), producer->name(), *grant, producer->schema_version())));
    co_return;
  }
  if (producer->state() == Producer::State::Closed) co_return;  // it left meanwhile
  producer->set_state(Producer::State::Closed);
  producer->outbox().send_frame(fenced_frame(producer->request_id(), grant.status().message()));
  producer->outbox().forget_producer(producer->id());
}

void ProducerRegistry::sample(TopicSample& into, SampleDetail detail, std::int64_t now_ns) const {
  into.producer_count = producers_.size();
  if (!detail.producers) return;
  for (const auto& [name, producer] : producers_)
    into.producers.push_back({name, producer->numbers(now_ns)});
}

}  // namespace geminga
