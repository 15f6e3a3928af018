// One socket of the binary protocol: reads into shared blocks, feeds the session, writes what the
// session and its outboxes hand over.
//
// Reading waits for readability without holding a block, so an idle connection costs no buffer; it
// stops while Session::may_read() is false. Writing is one gathered sendmsg at the end of a turn;
// what the kernel does not take waits for writability while the next pieces collect behind it. Made
// by its ConnectionShard, lives on that shard; handlers of the event loop keep it alive.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "broker/ring.h"
#include "broker/session.h"
#include "runtime/shard.h"

namespace geminga {

class ConnectionShard;

class BinaryConnection final : public SessionTransport,
                               public std::enable_shared_from_this<BinaryConnection>,
                               private Deferred {
 public:
  BinaryConnection(ConnectionShard& owner, Broker& broker, Shard& shard, SessionSettings settings,
                   asio::ip::tcp::socket socket);
  ~BinaryConnection();

  void start() { wait_readable(); }
  Session& session() { return *session_; }
  // Keep-alive, and giving back a block that a slow sender holds.
  void tick(std::int64_t now_ns);

  void write(std::vector<Buffer>& pieces) override;
  void resume_reading() override;
  void wait_for_memory() override;
  void close() override;

 private:
  void wait_readable();
  void read();
  void make_room();
  void fit_block(std::size_t capacity);
  void drop_block();

  void enqueue(Buffer piece);
  void wait_writable();
  void flush();
  void run_deferred() override { flush(); }

  void lost(std::string_view why);
  void shut();

  ConnectionShard& owner_;
  Shard& shard_;
  asio::ip::tcp::socket socket_;
  std::shared_ptr<Session> session_;

  // Input not yet consumed: [begin_, end_) of block_.
  Block* block_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t needed_ = 0;  // length of the frame that starts at begin_, if known
  bool waiting_to_read_ = false;
  bool read_since_tick_ = false;

  Ring<Buffer> queue_;
  std::size_t written_of_first_ = 0;
  Block* tail_ = nullptr;  // the block that the queue's last piece is being gathered in
  std::size_t tail_begin_ = 0;
  std::size_t tail_used_ = 0;
  bool waiting_to_write_ = false;
  bool shut_ = false;
};

}  // namespace geminga
