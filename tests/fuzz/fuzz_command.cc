// One command: the decoders made by hand and the generated class must not only survive but agree.
#include <cstdlib>

#include "PulsarApi.pb.h"
#include "fuzz/seeds.h"
#include "wire/command.h"

using namespace geminga;
using pulsar::proto::BaseCommand;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::as_bytes(data, size);
  const int type = peek_command_type(bytes);
  const auto send = decode_send(bytes);
  const auto flow = decode_flow(bytes);
  AckCommand ack;
  const bool is_ack = decode_ack(bytes, ack);
  if (static_cast<int>(send.has_value()) + static_cast<int>(flow.has_value()) +
          static_cast<int>(is_ack) >
      1) {
    std::abort();
  }
  for (const auto& id : ack.ids) {
    if (ack.ack_set(id).size() > size) std::abort();
  }
  const auto command = parse_command(bytes);
  if (!command) return 0;
  // A number that protobuf does not know hides behind an earlier one that it does.
  if (BaseCommand::Type_IsValid(type) && type != command->type()) std::abort();
  const Buffer again = encode_command(*command);
  if (!parse_command(again.span().subspan(8))) std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned random) {
  static const std::vector<std::string> seeds = [] {
    std::vector<std::string> made = {
        fuzz::unhex("08021225"
                    "0a0d50756c73617220436c69656e741a0020152a046e6f6e65520a08011001180128013001"),
        fuzz::unhex("080632080801100218033005"),
        fuzz::unhex("080a521708021000"
                    "1a11080110022a0bffffffffffffffffff013f"),
        fuzz::unhex("080b5a0408011005"),
    };
    BaseCommand command;
    command.set_type(BaseCommand::SUBSCRIBE);
    auto& subscribe = *command.mutable_subscribe();
    subscribe.set_topic("persistent://public/default/x");
    subscribe.set_subscription("s");
    subscribe.set_subtype(pulsar::proto::CommandSubscribe::Key_Shared);
    subscribe.set_consumer_id(1);
    subscribe.set_request_id(2);
    auto* range = subscribe.mutable_keysharedmeta()->add_hashranges();
    subscribe.mutable_keysharedmeta()->set_keysharedmode(pulsar::proto::STICKY);
    range->set_start(0);
    range->set_end(100);
    made.push_back(command.SerializeAsString());
    return made;
  }();
  return fuzz::mutate_from(seeds, data, size, max_size, random);
}
