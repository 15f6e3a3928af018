// A broker for the tests of the client: plain protocol on a loopback port, everything in memory,
// and faults on request. Runs on the test's io_context. Test code only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "PulsarApi.pb.h"
#include "runtime/task.h"
#include "wire/client_command.h"
#include "wire/frame.h"
#include "wire/message_metadata.h"

namespace geminga::client {

class FakeBroker {
 public:
  using Command = pulsar::proto::BaseCommand;

  // What goes wrong, and what the tests look at afterwards.
  struct Script {
    bool refuse_connect = false;
    bool ignore_pings = false;
    bool ignore_requests = false;
    int redirects = 0;                      // of lookups
    bool proxy = false;                     // lookups answer proxy_through_service_url
    std::set<std::int64_t> fail_sequences;  // SEND_ERROR instead of a receipt
    int drop_after_sends = -1;              // the connection breaks instead of the answer
    bool keep_entries = true;
  };
  Script script;
  std::map<std::string, std::vector<std::string>> entries;  // by topic
  std::vector<Position> acked;
  std::optional<Position> cumulative;
  std::vector<int> validation_errors;
  std::vector<std::uint32_t> flows;
  std::vector<std::string> connects;  // proxy_to_broker_url of each CONNECT
  std::set<std::string> closed;       // "producer 0", "consumer 1"
  int connections = 0;
  int sends = 0;
  int redeliveries = 0;

  explicit FakeBroker(asio::io_context& io)
      : acceptor_(io, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    accept();
  }
  std::string url() const {
    return "pulsar://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

  // Sends `command` on every connection.
  void broadcast(const Command& command) {
    for (const auto& weak : sessions_) {
      if (const auto session = weak.lock()) session->write(command);
    }
  }
  void drop_connections() {
    for (const auto& weak : sessions_) {
      if (const auto session = weak.lock()) session->socket.close();
    }
  }

 private:
  struct Subscriber {
    std::string topic;
    std::uint64_t consumer_id;
    std::size_t next = 0;
    std::int64_t permits = 0;
  };

  struct Session : std::enable_shared_from_this<Session> {
    Session(FakeBroker& b, asio::ip::tcp::socket s) : broker(b), socket(std::move(s)) {
      input.resize(1 << 20);
    }

    void read() {
      socket.async_read_some(
          asio::buffer(input.data() + end, input.size() - end),
          [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
            if (error) return;
            self->end += size;
            self->take_frames();
            self->flush();
            if (self->socket.is_open()) self->read();
          });
    }
    void take_frames() {
      std::size_t start = 0;
      while (socket.is_open()) {
        const NextFrame next = next_frame(std::span(input).subspan(start, end - start), 64 << 20);
        if (next.state != NextFrame::State::Ready) {
          if (next.needed > input.size()) input.resize(next.needed);
          break;
        }
        broker.on_frame(*this, next.frame);
        start += next.frame.size;
      }
      std::memmove(input.data(), input.data() + start, end - start);
      end -= start;
    }
    void write(const Command& command) {
      const Buffer frame = encode_command(command);
      output.append(frame.view());
      flush();
    }
    template <typename T>
    void write_hot(const T& value, std::string_view rest = {}) {
      const std::size_t at = output.size();
      output.resize(at + encoded_size(value));
      encode(value, reinterpret_cast<std::byte*>(output.data() + at));
      output.append(rest);
    }
    void flush() {
      if (writing || output.empty()) return;
      writing = true;
      in_flight.swap(output);
      asio::async_write(socket, asio::buffer(in_flight),
                        [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                          self->writing = false;
                          self->in_flight.clear();
                          if (!error) self->flush();
                        });
    }

    FakeBroker& broker;
    asio::ip::tcp::socket socket;
    std::vector<std::byte> input;
    std::size_t end = 0;
    std::string output;
    std::string in_flight;
    bool writing = false;
    std::map<std::uint64_t, std::string> producers;  // topic
    std::map<std::uint64_t, Subscriber> subscribers;
  };

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, asio::ip::tcp::socket socket) {
      if (error) return;
      ++connections;
      socket.set_option(asio::ip::tcp::no_delay(true));
      auto session = std::make_shared<Session>(*this, std::move(socket));
      sessions_.push_back(session);
      session->read();
      accept();
    });
  }

  void on_frame(Session& session, const Frame& frame) {
    if (peek_command_type(frame.command) == Command::SEND) return on_send(session, frame);
    const auto parsed = parse_command(frame.command);
    if (!parsed) return session.socket.close();
    const Command& command = *parsed;
    Command answer;
    switch (command.type()) {
      case Command::CONNECT:
        connects.push_back(command.connect().proxy_to_broker_url());
        if (script.refuse_connect) {
          answer.set_type(Command::ERROR);
          answer.mutable_error()->set_request_id(~std::uint64_t{0});
          answer.mutable_error()->set_error(pulsar::proto::AuthenticationError);
          answer.mutable_error()->set_message("no");
        } else {
          answer.set_type(Command::CONNECTED);
          answer.mutable_connected()->set_server_version("fake");
          answer.mutable_connected()->set_max_message_size(5 << 20);
        }
        return session.write(answer);
      case Command::PING:
        if (script.ignore_pings) return;
        answer.set_type(Command::PONG);
        answer.mutable_pong();
        return session.write(answer);
      case Command::PONG: return;
      case Command::FLOW: {
        flows.push_back(command.flow().messagepermits());
        const auto found = session.subscribers.find(command.flow().consumer_id());
        if (found == session.subscribers.end()) return;
        found->second.permits += command.flow().messagepermits();
        return deliver(session, found->second);
      }
      case Command::ACK: return on_ack(command.ack());
      case Command::REDELIVER_UNACKNOWLEDGED_MESSAGES: {
        ++redeliveries;
        auto& subscriber =
            session.subscribers.at(command.redeliverunacknowledgedmessages().consumer_id());
        subscriber.next = 0;
        return deliver(session, subscriber);
      }
      default:
        if (!script.ignore_requests) on_request(session, command);
    }
  }

  void on_request(Session& session, const Command& command) {
    Command answer;
    const auto success = [&](std::uint64_t request_id) {
      answer.set_type(Command::SUCCESS);
      answer.mutable_success()->set_request_id(request_id);
    };
    switch (command.type()) {
      case Command::PARTITIONED_METADATA:
        answer.set_type(Command::PARTITIONED_METADATA_RESPONSE);
        answer.mutable_partitionmetadataresponse()->set_request_id(
            command.partitionmetadata().request_id());
        answer.mutable_partitionmetadataresponse()->set_partitions(3);
        break;
      case Command::LOOKUP: {
        answer.set_type(Command::LOOKUP_RESPONSE);
        auto& body = *answer.mutable_lookuptopicresponse();
        body.set_request_id(command.lookuptopic().request_id());
        body.set_brokerserviceurl(url());
        body.set_proxy_through_service_url(script.proxy);
        body.set_response(pulsar::proto::CommandLookupTopicResponse::Connect);
        if (script.redirects > 0) {
          --script.redirects;
          body.set_response(pulsar::proto::CommandLookupTopicResponse::Redirect);
        }
        break;
      }
      case Command::PRODUCER: {
        const auto& body = command.producer();
        session.producers[body.producer_id()] = body.topic();
        answer.set_type(Command::PRODUCER_SUCCESS);
        answer.mutable_producer_success()->set_request_id(body.request_id());
        answer.mutable_producer_success()->set_producer_name(
            body.producer_name().empty() ? "fake-0-0" : body.producer_name());
        answer.mutable_producer_success()->set_schema_version("");
        break;
      }
      case Command::SUBSCRIBE: {
        const auto& body = command.subscribe();
        session.subscribers[body.consumer_id()] = {body.topic(), body.consumer_id()};
        success(body.request_id());
        break;
      }
      case Command::SEEK: {
        answer.set_type(Command::CLOSE_CONSUMER);
        answer.mutable_close_consumer()->set_consumer_id(command.seek().consumer_id());
        answer.mutable_close_consumer()->set_request_id(~std::uint64_t{0});
        session.write(answer);
        answer.Clear();
        session.subscribers.erase(command.seek().consumer_id());
        success(command.seek().request_id());
        break;
      }
      case Command::GET_LAST_MESSAGE_ID: {
        const auto& subscriber = session.subscribers.at(command.getlastmessageid().consumer_id());
        answer.set_type(Command::GET_LAST_MESSAGE_ID_RESPONSE);
        auto& body = *answer.mutable_getlastmessageidresponse();
        body.set_request_id(command.getlastmessageid().request_id());
        body.mutable_last_message_id()->set_ledgerid(1);
        body.mutable_last_message_id()->set_entryid(entries[subscriber.topic].size() - 1);
        break;
      }
      case Command::CLOSE_PRODUCER:
        closed.insert("producer " + std::to_string(command.close_producer().producer_id()));
        success(command.close_producer().request_id());
        break;
      case Command::CLOSE_CONSUMER:
        closed.insert("consumer " + std::to_string(command.close_consumer().consumer_id()));
        success(command.close_consumer().request_id());
        break;
      case Command::UNSUBSCRIBE: success(command.unsubscribe().request_id()); break;
      default: session.socket.close(); return;
    }
    session.write(answer);
  }

  void on_send(Session& session, const Frame& frame) {
    const auto send = decode_send(frame.command);
    if (!send || !session.producers.contains(send->producer_id)) return session.socket.close();
    if (sends++ == script.drop_after_sends) return session.socket.close();
    if (script.fail_sequences.contains(send->sequence_id)) {
      session.write_hot(SendError{send->producer_id, send->sequence_id, 9, "asked to fail"});
      return;
    }
    auto& log = entries[session.producers[send->producer_id]];
    log.emplace_back();
    if (script.keep_entries) {
      log.back().assign(reinterpret_cast<const char*>(frame.rest.data()), frame.rest.size());
    }
    session.write_hot(SendReceipt{send->producer_id,
                                  send->sequence_id,
                                  {1, static_cast<EntryId>(log.size() - 1)},
                                  send->highest_sequence_id.value_or(-1)});
    for (const auto& weak : sessions_) {
      const auto other = weak.lock();
      if (!other) continue;
      for (auto& [id, subscriber] : other->subscribers) deliver(*other, subscriber);
    }
  }

  void on_ack(const pulsar::proto::CommandAck& ack) {
    if (ack.has_validation_error()) validation_errors.push_back(ack.validation_error());
    for (const auto& id : ack.message_id()) {
      const Position position{static_cast<LedgerId>(id.ledgerid()),
                              static_cast<EntryId>(id.entryid())};
      if (ack.ack_type() == pulsar::proto::CommandAck::Cumulative) {
        cumulative = position;
      } else {
        acked.push_back(position);
      }
    }
  }

  void deliver(Session& session, Subscriber& subscriber) {
    const auto& log = entries[subscriber.topic];
    while (subscriber.permits > 0 && subscriber.next < log.size()) {
      const std::string& entry = log[subscriber.next];
      const auto metadata = parse_entry_metadata(std::as_bytes(std::span(entry)));
      subscriber.permits -= metadata ? metadata->num_messages : 1;
      MessageHeader header;
      header.consumer_id = subscriber.consumer_id;
      header.message_id = {1, static_cast<EntryId>(subscriber.next++)};
      header.entry_size = entry.size();
      session.write_hot(header, entry);
    }
    session.flush();
  }

  asio::ip::tcp::acceptor acceptor_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace geminga::client
