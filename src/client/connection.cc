#include "client/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "wire/command.h"

namespace geminga::client {

namespace {

using boost::system::error_code;
using pulsar::proto::BaseCommand;

constexpr std::size_t kInputSize = 256 * 1024;
constexpr std::size_t kLargestMessageSize = 256 * 1024 * 1024;
constexpr std::int32_t kProtocolVersion = 20;

Status status_of(int server_error, std::string message) {
  for (int code = 1;; ++code) {
    const auto error = static_cast<ErrorCode>(code);
    if (error_info(error).wire_code == server_error || error == ErrorCode::ProducerFenced) {
      return {error, std::move(message)};
    }
  }
}

// The request that a command answers.
std::optional<std::uint64_t> answered_request(const BaseCommand& c) {
  switch (c.type()) {
    case BaseCommand::SUCCESS: return c.success().request_id();
    case BaseCommand::ERROR: return c.error().request_id();
    case BaseCommand::PRODUCER_SUCCESS: return c.producer_success().request_id();
    case BaseCommand::PARTITIONED_METADATA_RESPONSE:
      return c.partitionmetadataresponse().request_id();
    case BaseCommand::LOOKUP_RESPONSE: return c.lookuptopicresponse().request_id();
    case BaseCommand::CONSUMER_STATS_RESPONSE: return c.consumerstatsresponse().request_id();
    case BaseCommand::GET_LAST_MESSAGE_ID_RESPONSE:
      return c.getlastmessageidresponse().request_id();
    case BaseCommand::GET_TOPICS_OF_NAMESPACE_RESPONSE:
      return c.gettopicsofnamespaceresponse().request_id();
    case BaseCommand::GET_SCHEMA_RESPONSE: return c.getschemaresponse().request_id();
    case BaseCommand::GET_OR_CREATE_SCHEMA_RESPONSE:
      return c.getorcreateschemaresponse().request_id();
    case BaseCommand::ACK_RESPONSE: return c.ackresponse().request_id();
    default: return std::nullopt;
  }
}

}  // namespace

std::byte* Connection::Output::append(std::size_t more) {
  if (size + more > capacity) {
    capacity = std::max(size + more, std::max<std::size_t>(64 * 1024, capacity * 2));
    auto grown = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (size > 0) std::memcpy(grown.get(), bytes.get(), size);
    bytes = std::move(grown);
  }
  std::byte* at = bytes.get() + size;
  size += more;
  return at;
}

Connection::Connection(asio::io_context& io, std::string peer, ClientOptions options)
    : io_(io),
      socket_(io),
      keep_alive_timer_(io),
      peer_(std::move(peer)),
      options_(std::move(options)) {
  input_.resize(kInputSize);
}

Connection::~Connection() = default;

Task<Result<std::shared_ptr<Connection>>> Connection::open(asio::io_context& io, HostPort address,
                                                           std::string proxied_broker,
                                                           ClientOptions options) {
  std::shared_ptr<Connection> connection(
      new Connection(io, address.to_string(), std::move(options)));
  // One timer bounds resolving, connecting and the handshake.
  asio::steady_timer deadline(io, connection->options_.operation_timeout);
  deadline.async_wait([weak = std::weak_ptr(connection)](error_code error) {
    const auto self = weak.lock();
    if (!error && self)
      self->close(Status::Timeout(fmt::format("connecting to {} took too long", self->peer_)));
  });
  error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = co_await resolver.async_resolve(
      address.host, std::to_string(address.port), asio::redirect_error(asio::use_awaitable, error));
  if (!connection->why_closed_.is_ok()) co_return connection->why_closed_;
  if (error)
    co_return Status::Io(fmt::format("cannot resolve {}: {}", address.host, error.message()));
  co_await asio::async_connect(connection->socket_, endpoints,
                               asio::redirect_error(asio::use_awaitable, error));
  if (!connection->why_closed_.is_ok()) co_return connection->why_closed_;
  if (error)
    co_return Status::Io(
        fmt::format("cannot connect to {}: {}", connection->peer_, error.message()));
  connection->socket_.set_option(asio::ip::tcp::no_delay(true), error);
  connection->open_ = true;
  const Status status = co_await connection->handshake(std::move(proxied_broker));
  if (!status.is_ok()) {
    connection->close(status);
    co_return status;
  }
  connection->keep_alive();
  co_return connection;
}

Task<Status> Connection::handshake(std::string proxied_broker) {
  Command command;
  command.set_type(Command::CONNECT);
  auto& connect = *command.mutable_connect();
  connect.set_client_version(options_.description);
  connect.set_protocol_version(kProtocolVersion);
  connect.set_auth_method_name(options_.auth_method.empty() ? "none" : options_.auth_method);
  connect.set_auth_data(options_.auth_data);
  if (!proxied_broker.empty()) connect.set_proxy_to_broker_url(std::move(proxied_broker));
  connect.mutable_feature_flags()->set_supports_auth_refresh(true);
  hello_ = std::make_shared<Waiter>(io_);
  const auto hello = hello_;
  hello->timer.expires_after(options_.operation_timeout);
  send(command);
  start_read();
  error_code ignored;
  co_await hello->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  hello_.reset();
  if (!hello->answer) {
    co_return why_closed_.is_ok() ? Status::Timeout(fmt::format("{} did not answer CONNECT", peer_))
                                  : why_closed_;
  }
  if (!hello->answer->is_ok()) co_return hello->answer->status();
  const auto& connected = hello->answer->value().connected();
  if (connected.max_message_size() > 0) {
    max_message_size_ =
        std::min(static_cast<std::size_t>(connected.max_message_size()), kLargestMessageSize);
  }
  co_return Status::ok();
}

Task<Result<Connection::Command>> Connection::request(Command command, std::uint64_t request_id) {
  if (!open_) co_return why_closed_;
  const auto self = shared_from_this();
  const auto waiter = std::make_shared<Waiter>(io_);
  waiters_[request_id] = waiter;
  waiter->timer.expires_after(options_.operation_timeout);
  send(command);
  error_code ignored;
  do {
    waiter->extended = false;
    co_await waiter->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  } while (!waiter->answer && waiter->extended);
  waiters_.erase(request_id);
  if (!waiter->answer) {
    co_return Status::Timeout(fmt::format("{} did not answer {} within {} ms", peer_,
                                          Command::Type_Name(command.type()),
                                          options_.operation_timeout.count()));
  }
  co_return std::move(*waiter->answer);
}

void Connection::answer(std::uint64_t request_id, Result<Command> result) {
  const auto found = waiters_.find(request_id);
  if (found == waiters_.end()) return;  // timed out meanwhile
  found->second->answer.emplace(std::move(result));
  found->second->timer.cancel();
}

void Connection::send(const Command& command) {
  if (!open_) return;
  const Buffer frame = encode_command(command);
  std::memcpy(append(frame.size()), frame.data(), frame.size());
}

std::byte* Connection::append(std::size_t size) {
  if (!writing_ && !flush_posted_) {
    flush_posted_ = true;
    asio::post(io_, [self = shared_from_this()] {
      self->flush_posted_ = false;
      self->start_write();
    });
  }
  return collecting_.append(size);
}

void Connection::start_write() {
  if (writing_ || !open_ || collecting_.size == 0) return;
  writing_ = true;
  std::swap(collecting_, in_flight_);
  asio::async_write(socket_, asio::buffer(in_flight_.bytes.get(), in_flight_.size),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      self->writing_ = false;
                      self->in_flight_.size = 0;
                      if (error) {
                        self->close(Status::Io(
                            fmt::format("writing to {} failed: {}", self->peer_, error.message())));
                      } else {
                        self->start_write();
                      }
                    });
}

void Connection::start_read() {
  socket_.async_read_some(asio::buffer(input_.data() + input_end_, input_.size() - input_end_),
                          [self = shared_from_this()](error_code error, std::size_t size) {
                            if (!self->open_) return;
                            if (error) {
                              self->close(Status::Io(fmt::format("connection to {} broke: {}",
                                                                 self->peer_, error.message())));
                              return;
                            }
                            self->on_read(size);
                          });
}

void Connection::on_read(std::size_t size) {
  heard_ = true;
  input_end_ += size;
  std::size_t needed = 0;
  while (open_) {
    const NextFrame next =
        next_frame(std::span(input_).subspan(input_start_, input_end_ - input_start_),
                   max_frame_size(max_message_size_));
    if (next.state == NextFrame::State::Bad) {
      close(next.error.with_context(peer_));
      return;
    }
    if (next.state == NextFrame::State::NeedMore) {
      needed = next.needed;
      break;
    }
    input_start_ += next.frame.size;
    const Status status = dispatch(next.frame);
    if (!status.is_ok()) close(status.with_context(peer_));
  }
  if (!open_) return;
  if (input_start_ == input_end_) {
    input_start_ = input_end_ = 0;
  } else if (input_start_ > 0 &&
             (input_start_ + needed > input_.size() || input_end_ == input_.size())) {
    std::memmove(input_.data(), input_.data() + input_start_, input_end_ - input_start_);
    input_end_ -= input_start_;
    input_start_ = 0;
  }
  if (input_.size() < input_start_ + needed) input_.resize(input_start_ + needed);
  start_read();
}

Status Connection::dispatch(const Frame& frame) {
  switch (peek_command_type(frame.command)) {
    case Command::MESSAGE: {
      const auto message = decode_message(frame.command);
      if (!message) return Status::Protocol("malformed MESSAGE");
      if (auto* to = consumer(message->consumer_id)) to->on_entry(*message, frame.rest);
      return Status::ok();
    }
    case Command::SEND_RECEIPT: {
      const auto receipt = decode_send_receipt(frame.command);
      if (!receipt) return Status::Protocol("malformed SEND_RECEIPT");
      if (auto* to = producer(receipt->producer_id)) to->on_receipt(*receipt);
      return Status::ok();
    }
    case Command::SEND_ERROR: {
      const auto error = decode_send_error(frame.command);
      if (!error) return Status::Protocol("malformed SEND_ERROR");
      if (auto* to = producer(error->producer_id)) to->on_send_error(*error);
      return Status::ok();
    }
    default: {
      const auto command = parse_command(frame.command);
      return command ? dispatch_command(*command) : command.status();
    }
  }
}

Status Connection::dispatch_command(const Command& command) {
  if (!connected_ && hello_) {
    if (command.type() == Command::AUTH_CHALLENGE) {
      authenticate_again(command);
      return Status::ok();
    }
    if (command.type() == Command::CONNECTED) {
      connected_ = true;
      hello_->answer.emplace(command);
    } else if (command.type() == Command::ERROR) {
      hello_->answer.emplace(status_of(command.error().error(), command.error().message()));
    } else {
      return Status::Protocol(
          fmt::format("{} instead of CONNECTED", Command::Type_Name(command.type())));
    }
    hello_->timer.cancel();
    return Status::ok();
  }
  switch (command.type()) {
    case Command::PING: {
      Command pong;
      pong.set_type(Command::PONG);
      pong.mutable_pong();
      send(pong);
      return Status::ok();
    }
    case Command::PONG: return Status::ok();
    case Command::AUTH_CHALLENGE: authenticate_again(command); return Status::ok();
    case Command::CLOSE_PRODUCER:
      if (auto* to = producer(command.close_producer().producer_id())) {
        to->on_end(Status::Closed("the broker closed the producer"));
      }
      return Status::ok();
    case Command::CLOSE_CONSUMER:
      if (auto* to = consumer(command.close_consumer().consumer_id())) {
        to->on_end(Status::Closed("the broker closed the consumer"));
      }
      return Status::ok();
    case Command::ACTIVE_CONSUMER_CHANGE:
      if (auto* to = consumer(command.active_consumer_change().consumer_id())) {
        to->on_active_change(command.active_consumer_change().is_active());
      }
      return Status::ok();
    case Command::REACHED_END_OF_TOPIC: return Status::ok();
    case Command::ERROR:
      answer(command.error().request_id(),
             status_of(command.error().error(), command.error().message()));
      return Status::ok();
    default: break;
  }
  // A producer that waits for its turn: the answer that counts comes later under the same id.
  if (command.type() == Command::PRODUCER_SUCCESS && !command.producer_success().producer_ready()) {
    const auto found = waiters_.find(command.producer_success().request_id());
    if (found != waiters_.end()) {
      found->second->extended = true;
      found->second->timer.expires_at(asio::steady_timer::time_point::max());  // wakes the waiter
    }
    return Status::ok();
  }
  const auto request_id = answered_request(command);
  if (!request_id) {
    return Status::Protocol(fmt::format("unexpected {}", Command::Type_Name(command.type())));
  }
  answer(*request_id, command);
  return Status::ok();
}

void Connection::authenticate_again(const Command& challenge) {
  Command response;
  response.set_type(Command::AUTH_RESPONSE);
  auto& body = *response.mutable_authresponse();
  body.set_client_version(options_.description);
  body.set_protocol_version(challenge.authchallenge().protocol_version());
  body.mutable_response()->set_auth_method_name(options_.auth_method);
  body.mutable_response()->set_auth_data(options_.auth_data);
  send(response);
}

void Connection::keep_alive() {
  keep_alive_timer_.expires_after(options_.keep_alive);
  keep_alive_timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || !self || !self->open_) return;
    if (self->pinged_ && !self->heard_) {
      self->close(Status::Timeout(fmt::format("{} has not answered a ping for {} ms", self->peer_,
                                              self->options_.keep_alive.count())));
      return;
    }
    self->heard_ = false;
    self->pinged_ = true;
    Command ping;
    ping.set_type(Command::PING);
    ping.mutable_ping();
    self->send(ping);
    self->keep_alive();
  });
}

std::uint64_t Connection::attach(ProducerEnd& producer) {
  producers_.push_back(&producer);
  return producers_.size() - 1;
}

std::uint64_t Connection::attach(ConsumerEnd& consumer) {
  consumers_.push_back(&consumer);
  return consumers_.size() - 1;
}

void Connection::detach_producer(std::uint64_t id) { producers_[id] = nullptr; }
void Connection::detach_consumer(std::uint64_t id) { consumers_[id] = nullptr; }

void Connection::close(Status why) {
  if (!why_closed_.is_ok()) return;
  const auto self = shared_from_this();
  why_closed_ = why;
  open_ = false;
  error_code ignored;
  socket_.close(ignored);
  keep_alive_timer_.cancel();
  if (hello_) hello_->timer.cancel();
  for (const auto& [id, waiter] : waiters_) {
    if (!waiter->answer) waiter->answer.emplace(why);
    waiter->timer.cancel();
  }
  // Indexes: whoever hears of it may detach others.
  for (std::size_t i = 0; i < producers_.size(); ++i) {
    if (auto* end = producers_[i]) end->on_end(why);
  }
  for (std::size_t i = 0; i < consumers_.size(); ++i) {
    if (auto* end = consumers_[i]) end->on_end(why);
  }
}

}  // namespace geminga::client
