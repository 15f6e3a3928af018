#include "server/binary_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "broker/broker.h"
#include "server/connection_shard.h"
#include "server/read_block.h"

namespace geminga {

namespace {

// How many blocks one connection may read before the others get their turn.
constexpr int kReadsPerTurn = 4;
// With less room than this it is better to read into a fresh block.
constexpr std::size_t kLeastRoom = 4096;
// A partial frame this small moves to a block of its own while the connection waits for the rest.
constexpr std::size_t kSmallRest = 512;
constexpr std::size_t kMostPieces = 256;
// Once so many pieces wait, small ones are gathered, so that a slow reader does not pin many
// blocks.
constexpr std::size_t kGatherFrom = 32;
constexpr std::size_t kGatherLimit = 1024;
constexpr std::size_t kGatherBlock = 16 * 1024;

std::string address_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return "/unknown";
  return fmt::format("/{}:{}", peer.address().to_string(), peer.port());
}

}  // namespace

BinaryConnection::BinaryConnection(ConnectionShard& owner, Broker& broker, Shard& shard,
                                   SessionSettings settings, asio::ip::tcp::socket socket)
    : owner_(owner), shard_(shard), socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  session_ = std::make_shared<Session>(broker, shard, *this, settings, address_of(socket_));
}

BinaryConnection::~BinaryConnection() {
  shard_.forget(*this);
  drop_block();
  if (tail_ != nullptr) tail_->unref();
}

void BinaryConnection::tick(std::int64_t now_ns) {
  session_->tick(now_ns);
  if (shut_) return;
  if (block_ != nullptr && !read_since_tick_ && waiting_to_read_ &&
      block_->capacity() >= kReadBlock) {
    fit_block(std::max<std::size_t>(end_ - begin_, kSmallRest));
  }
  read_since_tick_ = false;
}

// --- reading ---

void BinaryConnection::wait_readable() {
  if (waiting_to_read_ || shut_) return;
  if (begin_ == end_) {
    drop_block();
  } else if (end_ - begin_ <= kSmallRest && block_->capacity() > kSmallRest) {
    fit_block(kSmallRest);
  }
  waiting_to_read_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_to_read_ = false;
                       if (error || self->shut_) return;
                       self->read();
                     });
}

void BinaryConnection::resume_reading() {
  // Not from inside: the caller is in the middle of something.
  shard_.post([self = shared_from_this()] { self->wait_readable(); });
}

void BinaryConnection::wait_for_memory() { owner_.wait_for_memory(shared_from_this()); }

void BinaryConnection::read() {
  read_since_tick_ = true;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    if (!session_->may_read()) break;  // resume_reading() goes on
    make_room();
    const std::size_t room = block_->capacity() - end_;
    const ssize_t got = ::recv(socket_.native_handle(), block_->data() + end_, room, MSG_DONTWAIT);
    if (got == 0) return lost("the client closed it");
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return lost(std::strerror(errno));
    }
    end_ += static_cast<std::size_t>(got);
    Session::Consumed consumed;
    {
      const Buffer input = Buffer::share(block_, begin_, end_ - begin_);
      consumed = session_->received(input);
    }
    if (shut_) return;
    begin_ += consumed.bytes;
    needed_ = consumed.needed;
    if (begin_ == end_) {
      if (block_->unique()) {
        begin_ = end_ = 0;
      } else {
        drop_block();
      }
    }
    if (static_cast<std::size_t>(got) < room) break;
  }
  if (session_->may_read()) {
    wait_readable();
  } else if (begin_ == end_) {
    drop_block();
  }
}

// Sees to it that the frame being received can go on in block_. A long frame's block grows with
// what has arrived, so that an announced length alone takes no memory.
void BinaryConnection::make_room() {
  if (block_ == nullptr) {
    block_ = take_read_block(owner_.memory(), kReadBlock);
    begin_ = end_ = 0;
    return;
  }
  const std::size_t have = end_ - begin_;
  const std::size_t room = block_->capacity() - end_;
  const std::size_t missing = needed_ > have ? needed_ - have : 1;
  if (room >= std::min(missing, kLeastRoom) && room >= std::min<std::size_t>(missing, have)) return;
  fit_block(std::max(kReadBlock, std::min(needed_, std::max<std::size_t>(have * 2, 256 * 1024))));
}

// Moves the input to the front of a block of `capacity` bytes (the same one if that is possible).
void BinaryConnection::fit_block(std::size_t capacity) {
  const std::size_t have = end_ - begin_;
  if (block_->capacity() == capacity && block_->unique()) {
    std::memmove(block_->data(), block_->data() + begin_, have);
  } else {
    Block* fresh = take_read_block(owner_.memory(), capacity);
    std::memcpy(fresh->data(), block_->data() + begin_, have);
    block_->unref();
    block_ = fresh;
  }
  begin_ = 0;
  end_ = have;
}

void BinaryConnection::drop_block() {
  if (block_ != nullptr) block_->unref();
  block_ = nullptr;
  begin_ = end_ = needed_ = 0;
}

// --- writing ---

void BinaryConnection::write(std::vector<Buffer>& pieces) {
  if (!shut_) {
    for (Buffer& piece : pieces) enqueue(std::move(piece));
    if (!waiting_to_write_) shard_.defer(*this);
  }
  pieces.clear();
}

void BinaryConnection::enqueue(Buffer piece) {
  if (queue_.size() < kGatherFrom || piece.size() > kGatherLimit) {
    if (tail_ != nullptr) std::exchange(tail_, nullptr)->unref();
    queue_.push_back(std::move(piece));
    return;
  }
  if (tail_ != nullptr && tail_->capacity() - tail_used_ >= piece.size()) {
    std::memcpy(tail_->data() + tail_used_, piece.data(), piece.size());
    tail_used_ += piece.size();
    queue_.back() = Buffer::share(tail_, tail_begin_, tail_used_ - tail_begin_);
    return;
  }
  if (tail_ != nullptr) tail_->unref();
  tail_ = Block::allocate(kGatherBlock);
  std::memcpy(tail_->data(), piece.data(), piece.size());
  tail_begin_ = 0;
  tail_used_ = piece.size();
  queue_.push_back(Buffer::share(tail_, 0, tail_used_));
}

void BinaryConnection::wait_writable() {
  waiting_to_write_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_to_write_ = false;
                       if (!error && !self->shut_) self->flush();
                     });
}

void BinaryConnection::flush() {
  std::int64_t total = 0;
  while (!queue_.empty() && !waiting_to_write_ && !shut_) {
    std::array<iovec, kMostPieces> parts;
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (; count < parts.size() && count < queue_.size(); ++count) {
      const std::size_t skip = count == 0 ? written_of_first_ : 0;
      const Buffer& piece = queue_[count];
      // sendmsg does not write through it.
      parts[count].iov_base = const_cast<std::byte*>(piece.data() + skip);
      parts[count].iov_len = piece.size() - skip;
      bytes += parts[count].iov_len;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait_writable();
        break;
      }
      return lost(std::strerror(errno));
    }
    total += sent;
    std::size_t left = static_cast<std::size_t>(sent);
    while (left > 0) {
      const std::size_t of_first = queue_.front().size() - written_of_first_;
      if (left < of_first) {
        written_of_first_ += left;
        break;
      }
      left -= of_first;
      written_of_first_ = 0;
      queue_.pop_front();
    }
    if (static_cast<std::size_t>(sent) < bytes) wait_writable();
  }
  if (queue_.empty()) {
    if (tail_ != nullptr) std::exchange(tail_, nullptr)->unref();
    if (queue_.capacity() > 64) queue_.release_memory();
  }
  if (total > 0) session_->written(total);
}

// --- the end ---

void BinaryConnection::lost(std::string_view why) {
  if (shut_) return;
  GM_LOG_DEBUG("connection {} of {} ended: {}", session_->peer().connection_id,
               session_->peer().address, why);
  session_->disconnected();
  shut();
}

void BinaryConnection::close() {
  if (shut_) return;
  flush();  // an ERROR that tells why goes out if the client takes it at once
  shut();
}

void BinaryConnection::shut() {
  if (shut_) return;
  shut_ = true;
  shard_.forget(*this);
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
  queue_.clear();
  drop_block();
  owner_.ended(shared_from_this());
}

}  // namespace geminga
