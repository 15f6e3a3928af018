// The load of `geminga perf` on one thread: its producers, its consumers, the clock that says when
// a message is due, and what was measured.
//
// main makes one LoadWorker a thread: prepare() opens everything and blocks; start() lets the
// messages go at one instant for all workers; stop_sending() and finish() end it. The counters may
// be read by any thread at any time, all else belongs to the worker's thread or is asked for by a
// blocking call. Open loop: with a rate, message i is due at start + i / rate whatever happened to
// those before it, and its latency counts from there. A producer with in_flight messages unanswered
// gets no more; they fall due meanwhile.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/histogram.h"
#include "base/status.h"
#include "cli/perf_options.h"
#include "client/client.h"

namespace geminga {

struct LoadCounters {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> received_bytes{0};
};

// What one worker, or all together, have measured. Times in nanoseconds.
struct LoadResults {
  std::uint64_t acknowledged_in_window = 0;
  std::uint64_t received_in_window = 0;
  std::uint64_t received_bytes_in_window = 0;
  std::uint64_t unanswered = 0;  // sent, and no receipt came until the end
  std::uint64_t damaged = 0;     // entries received that did not decode
  std::int64_t last_acknowledged_ns = 0;
  std::int64_t first_received_ns = 0;
  std::int64_t last_received_ns = 0;
  Histogram publish;                            // due to receipt
  Histogram end_to_end;                         // due to received
  Histogram lateness;                           // due to sent: what the generator itself adds
  std::map<std::string, std::uint64_t> errors;  // a bounded number of texts

  void merge(const LoadResults& other);
};

// Histograms since the last call, for the progress line.
struct LoadInterval {
  Histogram publish;
  Histogram end_to_end;
};

class LoadWorker {
 public:
  // `rate` and `messages` are this worker's share.
  LoadWorker(const PerfOptions& options, double rate, std::uint64_t messages);
  ~LoadWorker();

  // Starts the thread; opens consumers, then producers, on the given topics (partitions already
  // resolved).
  Status prepare(std::vector<std::string> produce_to, std::vector<std::string> consume_from);
  // Messages are due from `start_ns` on (monotonic); what is due before `window_ns` is not
  // measured.
  void start(std::int64_t start_ns, std::int64_t window_ns);
  void stop_sending();
  // Closes everything, waiting at most `patience` for receipts; ends the thread.
  LoadResults finish(Millis patience);

  const LoadCounters& counters() const { return counters_; }
  LoadInterval take_interval();
  // All that this worker had to do is done: all messages sent and answered, or all received.
  bool done() const { return done_.load(std::memory_order_acquire); }

 private:
  struct Target {
    std::shared_ptr<client::Producer> producer;
    bool full = false;
  };
  struct Source {
    std::shared_ptr<client::Consumer> consumer;
    client::MessageId seen;                // the last message that came
    std::optional<client::MessageId> end;  // read: where it ends
    bool at_end = false;
    std::vector<client::MessageId> held;  // not acknowledged yet (--ack-window)
  };

  Task<Status> open_all(std::vector<std::string> produce_to, std::vector<std::string> consume_from);
  // Opens [begin, end) of `jobs`, many at once.
  struct Job {
    bool producer;
    std::string topic;
  };
  Task<Status> open_range(const std::vector<Job>& jobs, std::size_t begin, std::size_t end);
  Task<Status> open_producer(std::string topic);
  Task<Status> open_consumer(std::string topic);
  Task<void> close_all(Millis patience);
  template <typename T>
  T ask(std::function<Task<T>()> question);

  void pump();
  void pump_at(std::int64_t due_ns);
  bool send_one(std::int64_t due_ns);
  void resume_soon();
  void on_receipt(std::size_t target, const client::Receipt& receipt);
  void on_message(std::size_t source, const client::ReceivedMessage& message);
  void mark_at_end(Source& source);
  void ack_at_random(Source& source, const client::MessageId& id);
  Task<void> ack_held();
  void on_closed(const Status& why);
  void count_error(const Status& status, std::uint64_t times);
  void check_done();

  const PerfOptions& options_;
  const double rate_;
  const std::uint64_t messages_;  // 0: no limit
  const std::size_t in_flight_;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<client::Client> client_;
  std::thread thread_;

  std::vector<Target> targets_;
  std::deque<std::size_t> free_;  // targets with room, in turn
  std::vector<std::unique_ptr<Source>> sources_;
  std::size_t sources_at_end_ = 0;
  std::mt19937_64 random_{1};
  bool acking_held_ = false;

  std::vector<std::byte> payload_;
  std::vector<std::string> keys_;
  asio::steady_timer due_timer_{io_};
  bool sending_ = false;
  bool pump_posted_ = false;
  bool closing_ = false;
  std::int64_t start_ns_ = 0;
  std::int64_t window_ns_ = 0;
  std::int64_t wall_offset_ns_ = 0;  // wall clock less monotonic clock
  std::uint64_t next_ = 0;           // index of the next message

  LoadCounters counters_;
  std::atomic<bool> done_{false};
  LoadResults results_;
  LoadInterval interval_;
};

}  // namespace geminga
