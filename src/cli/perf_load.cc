#include "cli/perf_load.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <cstring>
#include <random>

#include "base/clock.h"
#include "base/endian.h"

namespace geminga {

namespace {

using client::MessageId;

// The start of a payload that is large enough: by it a consumer knows when the message was due.
constexpr std::uint64_t kStampMagic = 0x474d5045'52463031;  // GMPERF01
constexpr std::size_t kStampSize = 16;
// So many messages a turn, then the loop looks at the sockets.
constexpr int kMostPerTurn = 512;
constexpr int kOpenedAtOnce = 32;
constexpr std::size_t kMostErrorTexts = 20;

void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool reached(const MessageId& at, const MessageId& last) {
  if (at.position != last.position) return at.position > last.position;
  return at.batch_index < 0 || at.batch_index >= last.batch_index;
}

}  // namespace

void LoadResults::merge(const LoadResults& other) {
  acknowledged_in_window += other.acknowledged_in_window;
  received_in_window += other.received_in_window;
  received_bytes_in_window += other.received_bytes_in_window;
  unanswered += other.unanswered;
  damaged += other.damaged;
  if (other.first_received_ns != 0 &&
      (first_received_ns == 0 || other.first_received_ns < first_received_ns)) {
    first_received_ns = other.first_received_ns;
  }
  last_acknowledged_ns = std::max(last_acknowledged_ns, other.last_acknowledged_ns);
  last_received_ns = std::max(last_received_ns, other.last_received_ns);
  publish.merge(other.publish);
  end_to_end.merge(other.end_to_end);
  lateness.merge(other.lateness);
  for (const auto& [text, times] : other.errors) errors[text] += times;
}

LoadWorker::LoadWorker(const PerfOptions& options, double rate, std::uint64_t messages)
    : options_(options),
      rate_(rate),
      messages_(messages),
      in_flight_(options.messages_in_flight()) {
  client::ClientOptions wanted;
  wanted.service_url = options.service_url;
  wanted.connections_per_broker = options.connections;
  if (!options.token.empty()) {
    wanted.auth_method = "token";
    wanted.auth_data = options.token;
  }
  client_ = std::make_unique<client::Client>(io_, std::move(wanted));
  payload_.resize(options.size);
  std::mt19937 random(1);
  for (auto& byte : payload_) byte = static_cast<std::byte>(random());
  for (unsigned i = 0; i < options.key_count; ++i) keys_.push_back("key-" + std::to_string(i));
  wall_offset_ns_ = wall_ns() - monotonic_ns();
}

LoadWorker::~LoadWorker() {
  work_.reset();
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

template <typename T>
T LoadWorker::ask(std::function<Task<T>()> question) {
  return asio::co_spawn(io_, std::move(question), asio::use_future).get();
}

Status LoadWorker::prepare(std::vector<std::string> produce_to,
                           std::vector<std::string> consume_from) {
  thread_ = std::thread([this] {
    prctl(PR_SET_TIMERSLACK, 1000);  // due times are kept to the microsecond
    io_.run();
  });
  return ask<Status>([&]() -> Task<Status> {
    co_return co_await open_all(std::move(produce_to), std::move(consume_from));
  });
}

Task<Status> LoadWorker::open_all(std::vector<std::string> produce_to,
                                  std::vector<std::string> consume_from) {
  std::vector<Job> jobs;
  for (auto& topic : consume_from) jobs.push_back({false, std::move(topic)});
  const std::size_t consumers = jobs.size();
  for (auto& topic : produce_to) jobs.push_back({true, std::move(topic)});
  // Consumers first, so that no message is sent before its subscription is there.
  GM_CO_RETURN_IF_ERROR(co_await open_range(jobs, 0, consumers));
  GM_CO_RETURN_IF_ERROR(co_await open_range(jobs, consumers, jobs.size()));
  for (std::size_t i = 0; i < targets_.size(); ++i) free_.push_back(i);
  check_done();  // empty topics are read already
  co_return Status::ok();
}

Task<Status> LoadWorker::open_range(const std::vector<Job>& jobs, std::size_t begin,
                                    std::size_t end) {
  if (begin == end) co_return Status::ok();
  Status first_error;
  std::size_t next = begin;
  int running = kOpenedAtOnce;
  Event all_done;
  const auto opener = [&]() -> Task<void> {
    while (next < end && first_error.is_ok()) {
      const Job& job = jobs[next++];
      Status status;
      if (job.producer) {
        status = co_await open_producer(job.topic);
      } else {
        status = co_await open_consumer(job.topic);
      }
      if (!status.is_ok()) first_error = status;
    }
    if (--running == 0) all_done.set();
  };
  for (int i = 0; i < kOpenedAtOnce; ++i) {
    asio::co_spawn(io_, opener, [](std::exception_ptr exception) {
      if (exception) async_internal::die_of(exception);
    });
  }
  co_await all_done.wait();
  co_return first_error;
}

Task<Status> LoadWorker::open_producer(std::string topic) {
  const std::size_t index = targets_.size();
  targets_.emplace_back();
  client::ProducerOptions wanted;
  wanted.topic = std::move(topic);
  wanted.batching = options_.batching;
  wanted.batch_messages = options_.batch_messages;
  wanted.batch_bytes = options_.batch_bytes;
  wanted.batch_delay =
      std::chrono::microseconds(static_cast<std::int64_t>(options_.batch_delay_ms * 1000));
  wanted.compression = options_.compression;
  wanted.max_pending = in_flight_ + 1;
  wanted.on_receipt = [this, index](const client::Receipt& receipt) { on_receipt(index, receipt); };
  wanted.on_closed = [this](const Status& why) { on_closed(why); };
  auto opened = co_await client_->create_producer(std::move(wanted));
  if (!opened.is_ok()) co_return opened.status();
  targets_[index].producer = std::move(opened).value();
  co_return Status::ok();
}

Task<Status> LoadWorker::open_consumer(std::string topic) {
  const std::size_t index = sources_.size();
  sources_.push_back(std::make_unique<Source>());
  const bool read = options_.mode == PerfMode::Read;
  client::ConsumerOptions wanted;
  wanted.topic = std::move(topic);
  wanted.subscription = options_.subscription;
  wanted.type = options_.subscription_type;
  wanted.receiver_queue = options_.receiver_queue;
  wanted.from_earliest = options_.from_earliest;
  if (read) {
    wanted.durable = false;
    wanted.start = Position::earliest();
    wanted.subscription = fmt::format("perf-read-{:x}-{}", std::random_device{}(), index);
  }
  wanted.on_message = [this, index](const client::ReceivedMessage& message) {
    on_message(index, message);
  };
  wanted.on_closed = [this](const Status& why) { on_closed(why); };
  auto opened = co_await client_->subscribe(std::move(wanted));
  if (!opened.is_ok()) co_return opened.status();
  Source& source = *sources_[index];
  source.consumer = std::move(opened).value();
  if (!read) co_return Status::ok();
  const auto last = co_await source.consumer->last_message_id();
  if (!last.is_ok()) co_return last.status();
  source.end = *last;
  // Messages came while the end was asked for.
  if (last->position.entry < 0 ||
      (source.seen.position.entry >= 0 && reached(source.seen, *last))) {
    mark_at_end(source);
  }
  co_return Status::ok();
}

void LoadWorker::mark_at_end(Source& source) {
  if (source.at_end) return;
  source.at_end = true;
  ++sources_at_end_;
}

void LoadWorker::start(std::int64_t start_ns, std::int64_t window_ns) {
  asio::post(io_, [this, start_ns, window_ns] {
    start_ns_ = start_ns;
    window_ns_ = window_ns;
    sending_ = !targets_.empty();
    pump_at(start_ns);
  });
}

void LoadWorker::stop_sending() {
  asio::post(io_, [this] {
    sending_ = false;
    due_timer_.cancel();
    for (auto& target : targets_) target.producer->flush();
    check_done();
  });
}

void LoadWorker::pump() {
  for (int turn = 0; sending_ && !free_.empty(); ++turn) {
    if (messages_ != 0 && next_ >= messages_) {
      sending_ = false;
      for (auto& target : targets_) target.producer->flush();
      check_done();
      return;
    }
    const std::int64_t now = monotonic_ns();
    std::int64_t due = now;
    if (rate_ > 0) {
      due = start_ns_ + static_cast<std::int64_t>(static_cast<double>(next_) * 1e9 / rate_);
      if (due > now) {
        return pump_at(due);
      }
    }
    if (turn == kMostPerTurn) return resume_soon();
    if (due >= window_ns_) results_.lateness.record(now - due);
    if (!send_one(due)) return;
  }
}

void LoadWorker::pump_at(std::int64_t due_ns) {
  due_timer_.expires_at(asio::steady_timer::time_point(std::chrono::nanoseconds(due_ns)));
  due_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) pump();
  });
}

void LoadWorker::resume_soon() {
  if (pump_posted_) return;
  pump_posted_ = true;
  asio::post(io_, [this] {
    pump_posted_ = false;
    pump();
  });
}

bool LoadWorker::send_one(std::int64_t due_ns) {
  const std::size_t index = free_.front();
  free_.pop_front();
  Target& target = targets_[index];
  client::OutgoingMessage message;
  if (payload_.size() >= kStampSize) {
    store_le64(payload_.data(), kStampMagic);
    store_le64(payload_.data() + 8, static_cast<std::uint64_t>(due_ns + wall_offset_ns_));
  }
  message.payload = payload_;
  if (!keys_.empty()) message.key = keys_[next_ % keys_.size()];
  if (options_.deliver_after_s > 0) {
    const auto after = static_cast<std::uint64_t>(options_.deliver_after_s * 1000);
    message.deliver_at =
        now_ms() + static_cast<std::int64_t>(after + random_() % std::max<std::uint64_t>(after, 1));
  }
  const Status status = target.producer->send(message, static_cast<std::uint64_t>(due_ns));
  if (!status.is_ok()) {
    bump(counters_.failed);
    count_error(status, 1);
    sending_ = false;
    check_done();
    return false;
  }
  ++next_;
  bump(counters_.sent);
  if (target.producer->pending() < in_flight_) {
    free_.push_back(index);
  } else {
    target.full = true;
    target.producer->flush();
  }
  return true;
}

void LoadWorker::on_receipt(std::size_t target, const client::Receipt& receipt) {
  if (receipt.status.is_ok()) {
    bump(counters_.acknowledged);
    const std::int64_t now = monotonic_ns();
    const auto due = static_cast<std::int64_t>(receipt.context);
    if (now >= window_ns_) ++results_.acknowledged_in_window;
    results_.last_acknowledged_ns = now;
    interval_.publish.record(now - due);
    if (due >= window_ns_) results_.publish.record(now - due);
  } else if (!closing_) {  // else it was told as unanswered
    bump(counters_.failed);
    count_error(receipt.status, 1);
  }
  Target& from = targets_[target];
  if (from.full) {
    from.full = false;
    free_.push_back(target);
    if (sending_ && free_.size() == 1) resume_soon();
  }
  if (!sending_) check_done();
}

void LoadWorker::on_message(std::size_t index, const client::ReceivedMessage& message) {
  Source& source = *sources_[index];
  const std::int64_t now = monotonic_ns();
  bump(counters_.received);
  bump(counters_.received_bytes, message.payload.size());
  if (now >= window_ns_) {
    ++results_.received_in_window;
    results_.received_bytes_in_window += message.payload.size();
    if (results_.first_received_ns == 0) results_.first_received_ns = now;
    results_.last_received_ns = now;
  }
  if (message.payload.size() >= kStampSize && load_le64(message.payload.data()) == kStampMagic) {
    const auto due =
        static_cast<std::int64_t>(load_le64(message.payload.data() + 8)) - wall_offset_ns_;
    interval_.end_to_end.record(now - due);
    if (due >= window_ns_) results_.end_to_end.record(now - due);
  }
  source.seen = message.id;
  if (options_.mode == PerfMode::Read) {
    if (source.end && !source.at_end && reached(message.id, *source.end)) {
      mark_at_end(source);
      check_done();
    }
    return;
  }
  if (options_.ack_window == 0) {
    source.consumer->ack(message.id);
  } else {
    ack_at_random(source, message.id);
  }
  if (options_.mode == PerfMode::Consume && messages_ != 0) check_done();
}

void LoadWorker::ack_at_random(Source& source, const client::MessageId& id) {
  if (source.held.size() < options_.ack_window) {
    source.held.push_back(id);
    return;
  }
  client::MessageId& place = source.held[random_() % source.held.size()];
  source.consumer->ack(std::exchange(place, id));
}

Task<void> LoadWorker::ack_held() {
  constexpr std::size_t kAtOnce = 10'000;  // then what they are sent in is written
  std::size_t acked = 0;
  for (const auto& source : sources_) {
    std::shuffle(source->held.begin(), source->held.end(), random_);
    for (const client::MessageId& id : source->held) {
      if (!source->consumer->is_open()) break;
      source->consumer->ack(id);
      if (++acked % kAtOnce == 0) co_await sleep_for(Millis(1));
    }
    source->consumer->flush_acks();
    source->held = {};
  }
  done_.store(true, std::memory_order_release);
}

void LoadWorker::on_closed(const Status& why) {
  if (closing_) return;
  count_error(why, 1);
  bump(counters_.failed);
  sending_ = false;
  done_.store(true, std::memory_order_release);
}

void LoadWorker::count_error(const Status& status, std::uint64_t times) {
  std::string text = status.to_string();
  if (!results_.errors.contains(text) && results_.errors.size() >= kMostErrorTexts) text = "others";
  results_.errors[text] += times;
}

void LoadWorker::check_done() {
  bool done = false;
  switch (options_.mode) {
    case PerfMode::Produce:
    case PerfMode::Latency: {
      const auto answered = counters_.acknowledged.load(std::memory_order_relaxed) +
                            counters_.failed.load(std::memory_order_relaxed);
      done =
          !sending_ && start_ns_ != 0 && answered >= counters_.sent.load(std::memory_order_relaxed);
      break;
    }
    case PerfMode::Consume:
      done = messages_ != 0 && counters_.received.load(std::memory_order_relaxed) >= messages_;
      if (!done || options_.ack_window == 0) break;
      done = false;  // not before these are acknowledged
      if (std::exchange(acking_held_, true)) break;
      asio::co_spawn(
          io_, [this]() -> Task<void> { co_await ack_held(); },
          [](std::exception_ptr exception) {
            if (exception) async_internal::die_of(exception);
          });
      break;
    case PerfMode::Read: done = sources_at_end_ == sources_.size(); break;
    default: break;
  }
  if (done) done_.store(true, std::memory_order_release);
}

LoadInterval LoadWorker::take_interval() {
  return ask<LoadInterval>(
      [this]() -> Task<LoadInterval> { co_return std::exchange(interval_, {}); });
}

Task<void> LoadWorker::close_all(Millis patience) {
  closing_ = true;
  sending_ = false;
  const std::int64_t give_up = monotonic_ns() + patience.count() * 1'000'000;
  const auto pending = [this] {
    std::size_t count = 0;
    for (const auto& target : targets_) {
      if (target.producer) count += target.producer->pending();
    }
    return count;
  };
  while (pending() > 0 && monotonic_ns() < give_up) co_await sleep_for(Millis(5));
  results_.unanswered = pending();
  for (const auto& source : sources_) {
    if (!source->consumer) continue;
    results_.damaged += source->consumer->damaged();
    (void)co_await source->consumer->close();
  }
  for (const auto& target : targets_) {
    if (target.producer && target.producer->pending() == 0) (void)co_await target.producer->close();
  }
  client_->close();
}

LoadResults LoadWorker::finish(Millis patience) {
  LoadResults results = ask<LoadResults>([&]() -> Task<LoadResults> {
    co_await close_all(patience);
    co_return std::move(results_);
  });
  work_.reset();
  io_.stop();
  thread_.join();
  return results;
}

}  // namespace geminga
