#include "broker/session.h"

#include "PulsarApi.pb.h"
#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "broker/call_on.h"
#include "broker/topic_list_watch.h"

namespace geminga {

namespace {

namespace proto = pulsar::proto;

std::uint64_t next_connection_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::int64_t ns(Millis duration) { return std::chrono::nanoseconds(duration).count(); }

// PING and PONG never differ: BE32 9, BE32 5, type, empty body.
Buffer ping_frame() {
  return Buffer::of_static(
      std::string_view("\x00\x00\x00\x09\x00\x00\x00\x05\x08\x12\x92\x01\x00", 13));
}
Buffer pong_frame() {
  return Buffer::of_static(
      std::string_view("\x00\x00\x00\x09\x00\x00\x00\x05\x08\x13\x9a\x01\x00", 13));
}

// Lets go of what belongs to another shard on that shard.
template <typename Slot>
void drop_on_its_shard(Slot slot) {
  Shard* shard = slot.shard;
  if (shard == nullptr || shard->is_current()) return;
  shard->post([slot = std::move(slot)] {});
}

}  // namespace

Session::Session(Broker& broker, Shard& shard, SessionTransport& transport,
                 SessionSettings settings, std::string address)
    : broker_(broker),
      shard_(shard),
      transport_(transport),
      settings_(settings),
      link_(std::make_shared<ConnectionLink>(shard, broker.runtime().memory(), broker.metrics(),
                                             settings.watermarks, this)),
      keep_alive_due_ns_(monotonic_ns() + ns(settings.keep_alive)) {
  link_->peer.connection_id = next_connection_id();
  link_->peer.address = std::move(address);
  metrics().connections_opened.add();
}

ShardMetrics& Session::metrics() { return broker_.metrics().of(shard_.id()); }

Session::~Session() = default;

void Session::connected(PeerInfo peer) {
  peer.connection_id = link_->peer.connection_id;
  peer.address = link_->peer.address;
  link_->peer = std::move(peer);
  state_ = State::Connected;
}

// --- answers ---

void Session::write_frame(Buffer frame) {
  if (closed()) return;
  const auto bytes = static_cast<std::int64_t>(frame.size());
  link_->memory.take(MemoryUse::Delivery, frame.size());
  link_->unwritten.fetch_add(bytes);
  accepted_ += bytes;
  std::vector<Buffer> pieces;
  pieces.push_back(std::move(frame));
  transport_.write(pieces);
}

void Session::reply(const proto::BaseCommand& command) { write_frame(encode_command(command)); }

void Session::reply_success(std::uint64_t request_id) {
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::SUCCESS);
  command.mutable_success()->set_request_id(request_id);
  reply(command);
}

void Session::reply_error(std::uint64_t request_id, const Status& status) {
  metrics().requests_failed.add();
  const ErrorInfo& info = error_info(status.code());
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::ERROR);
  proto::CommandError& error = *command.mutable_error();
  error.set_request_id(request_id);
  error.set_error(static_cast<proto::ServerError>(info.wire_code));
  error.set_message(status.message().empty() ? std::string(info.text) : status.message());
  reply(command);
}

void Session::ping() { write_frame(ping_frame()); }
void Session::pong() { write_frame(pong_frame()); }

// --- what outboxes bring ---

void Session::deliver(ConnectionLink& link, std::unique_ptr<OutBatch> batch) {
  if (link.session == nullptr) {
    link.memory.give_back(MemoryUse::Delivery, static_cast<std::size_t>(batch->bytes));
    return;
  }
  link.session->accept(*batch);
}

void Session::accept(OutBatch& batch) {
  const std::int64_t now = batch.forgotten.empty() ? 0 : monotonic_ns();
  for (const OutBatch::Forgotten& forgotten : batch.forgotten) forget(forgotten, now);
  accepted_ += batch.bytes;
  if (!batch.pieces.empty()) transport_.write(batch.pieces);
  publishes_done(batch.publishes_done);
  if (!batch.close_reason.empty()) close(batch.close_reason);
}

void Session::forget(const OutBatch::Forgotten& forgotten, std::int64_t now_ns) {
  if (forgotten.kind == OutBatch::Forgotten::Kind::Consumer) {
    const auto at = consumers_.find(forgotten.id);
    if (at == consumers_.end()) return;
    if (!at->second.ready) {
      at->second.closed_by_broker = true;  // its handler answers
      return;
    }
    drop_on_its_shard(std::move(at->second));
    consumers_.erase(at);
    return;
  }
  if (forgotten.told) closed_producers_[forgotten.id] = now_ns + ns(settings_.keep_alive);
  const auto at = producers_.find(forgotten.id);
  if (at == producers_.end()) return;
  if (!at->second.ready) {
    at->second.closed_by_broker = true;
    return;
  }
  drop_on_its_shard(std::move(at->second));
  producers_.erase(at);
}

void Session::publishes_done(std::int32_t count) {
  if (count == 0) return;
  if (count < 0) {  // they were set aside, and are in flight again
    publishes_in_flight_ += static_cast<std::uint32_t>(-count);
    return;
  }
  publishes_in_flight_ -= std::min(static_cast<std::uint32_t>(count), publishes_in_flight_);
  if (publish_window_full_) release_holds();
}

void Session::written(std::int64_t bytes) {
  if (closed()) return;
  accepted_ -= bytes;
  link_->memory.give_back(MemoryUse::Delivery, static_cast<std::size_t>(bytes));
  const std::int64_t left = link_->unwritten.fetch_sub(bytes) - bytes;
  if (left < settings_.watermarks.low) {
    for (const auto& outbox : outboxes_) {
      if (outbox == nullptr || !outbox->take_waiting()) continue;
      outbox->shard().post([outbox] { outbox->became_writable(); });
    }
  }
  if (held_by_replies_) release_holds();
}

// --- back-pressure ---

bool Session::may_read() const {
  return !closed() && !publish_window_full_ && !held_by_memory_ && !held_by_replies_ &&
         !held_by_control_;
}

void Session::hold_if_due() {
  if (closed()) return;
  const bool read_on = may_read();
  const auto hold = [](bool& held, bool due, Counter& counter) {
    if (held || !due) return;
    held = true;
    counter.add();
  };
  hold(publish_window_full_, publishes_in_flight_ >= settings_.max_pending_publishes,
       metrics().paused_by_publishes);
  hold(held_by_replies_, accepted_ > settings_.max_unread_replies, metrics().paused_by_replies);
  hold(held_by_control_, gate_.inside() > settings_.max_control_commands,
       metrics().paused_by_requests);
  // Only publishers are held back: acknowledgements and permits give memory free.
  if (chunk_has_sends_ && !held_by_memory_ && link_->memory.pressed()) {
    hold(held_by_memory_, true, metrics().paused_by_memory);
    transport_.wait_for_memory();
  }
  if (read_on && !may_read()) metrics().paused.add(1);
}

void Session::release_holds() {
  if (closed() || may_read()) return;
  if (publishes_in_flight_ <= settings_.max_pending_publishes / 2) publish_window_full_ = false;
  if (accepted_ <= settings_.max_unread_replies / 2) held_by_replies_ = false;
  if (gate_.inside() <= settings_.max_control_commands / 2) held_by_control_ = false;
  resume_if_free();
}

void Session::memory_relieved() {
  if (closed() || !held_by_memory_) return;
  held_by_memory_ = false;
  resume_if_free();
}

void Session::resume_if_free() {
  if (!may_read()) return;
  metrics().paused.add(-1);
  transport_.resume_reading();
}

// --- keep-alive ---

void Session::tick(std::int64_t now_ns) {
  if (closed() || now_ns < keep_alive_due_ns_) return;
  keep_alive_due_ns_ = now_ns + ns(settings_.keep_alive);
  std::erase_if(closed_producers_, [&](const auto& closed) { return closed.second < now_ns; });
  if (state_ == State::Start) return close("no CONNECT within the keep-alive interval");
  if (!may_read()) {
    // It may have sent a PING that stands behind what is not read yet: answer that in advance, and
    // do not take its silence for death.
    pong();
    ping_unanswered_ = false;
    return;
  }
  if (ping_unanswered_) return close("it did not answer a PING within the keep-alive interval");
  if (peer().protocol_version < 1) return;
  ping_unanswered_ = true;
  ping();
}

Task<bool> Session::probe_alive(Millis timeout) {
  auto self = shared_from_this();
  if (closed()) co_return false;
  if (!may_read()) co_return true;  // we are who does not listen
  const std::uint64_t seen = frames_received_;
  if (probe_ == nullptr) {
    probe_ = std::make_shared<asio::steady_timer>(shard_.executor(), timeout);
    ping();
  }
  auto probe = probe_;
  boost::system::error_code ignored;
  co_await probe->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (probe_ == probe) probe_.reset();
  if (closed()) co_return false;
  if (frames_received_ != seen) co_return true;
  close("it did not answer the PING that asked whether it still needs its place");
  co_return false;
}

// --- the end ---

void Session::close(std::string_view reason) {
  if (closed()) return;
  flush_work();  // what came before still counts
  if (closed()) return;
  GM_LOG_INFO("connection {} of {}: closed by the broker: {}", link_->peer.connection_id,
              link_->peer.address, reason);
  metrics().connections_cut.add();
  disconnected();
  transport_.close();
}

void Session::disconnected() {
  if (closed()) return;
  if (!may_read()) metrics().paused.add(-1);
  state_ = State::Closed;
  metrics().connections_closed.add();
  link_->connected.store(false);
  link_->session = nullptr;
  link_->memory.give_back(MemoryUse::Delivery, static_cast<std::size_t>(accepted_));
  accepted_ = 0;
  if (probe_ != nullptr) probe_->cancel();
  watches_.clear();
  release_slots();
}

void Session::release_slots() {
  struct OfShard {
    std::vector<ProducerSlot> producers;
    std::vector<ConsumerSlot> consumers;
  };
  std::unordered_map<Shard*, OfShard> by_shard;
  for (auto& [id, slot] : producers_) {
    // Those being created are removed by their handlers, which find the session closed.
    if (slot.ready) by_shard[slot.shard].producers.push_back(std::move(slot));
  }
  for (auto& [id, slot] : consumers_) {
    if (slot.ready) by_shard[slot.shard].consumers.push_back(std::move(slot));
  }
  producers_.clear();
  consumers_.clear();
  for (auto& [shard, slots] : by_shard) {
    auto owned = std::make_shared<OfShard>(std::move(slots));
    spawn(shard_, gate_, [shard = shard, owned]() mutable -> Task<void> {
      auto work = [owned = std::move(owned)]() mutable -> Task<bool> {
        for (ConsumerSlot& slot : owned->consumers)
          slot.subscription->remove_consumer(slot.consumer);
        for (ProducerSlot& slot : owned->producers)
          co_await slot.topic->remove_producer(slot.producer);
        owned->consumers.clear();
        owned->producers.clear();
        co_return true;
      };
      co_await call_on(*shard, std::move(work));
    });
  }
}

Task<void> Session::ended() {
  auto self = shared_from_this();
  co_await gate_.close();
  // Outboxes may wait in posted calls; they hold the link, not the session.
  outboxes_.clear();
}

// --- tables ---

std::shared_ptr<ShardOutbox> Session::outbox_on(Shard& shard) {
  if (outboxes_.size() <= shard.id()) outboxes_.resize(shard.id() + 1);
  auto& outbox = outboxes_[shard.id()];
  if (outbox == nullptr) outbox = std::make_shared<ShardOutbox>(shard, link_);
  return outbox;
}

Session::ProducerSlot* Session::producer(std::uint64_t id, std::uint64_t generation) {
  const auto at = producers_.find(id);
  return at != producers_.end() && at->second.generation == generation ? &at->second : nullptr;
}

Session::ConsumerSlot* Session::consumer(std::uint64_t id, std::uint64_t generation) {
  const auto at = consumers_.find(id);
  return at != consumers_.end() && at->second.generation == generation ? &at->second : nullptr;
}

Session::ConsumerSlot* Session::consumer(std::uint64_t id) {
  const auto at = consumers_.find(id);
  return at != consumers_.end() && at->second.ready ? &at->second : nullptr;
}

std::optional<Session::SoughtConsumer> Session::consumer_or_sought(std::uint64_t id) const {
  if (const auto at = consumers_.find(id); at != consumers_.end() && at->second.ready) {
    const ConsumerSlot& slot = at->second;
    return SoughtConsumer{slot.topic, slot.subscription, slot.outbox, slot.shard};
  }
  const auto at = sought_.find(id);
  return at == sought_.end() ? std::nullopt : std::optional(at->second);
}

void Session::remember_sought(std::uint64_t id, SoughtConsumer consumer) {
  if (sought_.size() >= kMaxSought) sought_.clear();
  sought_[id] = std::move(consumer);
}

void Session::control_done() {
  if (held_by_control_) release_holds();
}

}  // namespace geminga
