// A stream of frames, as a connection's read loop takes it, in pieces whose sizes the input
// chooses.
#include <cstdlib>

#include "fuzz/seeds.h"
#include "wire/frame.h"

using namespace geminga;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMax = 4096;
  const auto stream = fuzz::as_bytes(data, size);
  std::size_t start = 0;
  std::size_t received = size == 0 ? 0 : data[size - 1] % 16;
  while (received <= size) {
    const NextFrame next = next_frame(stream.subspan(start, received - start), kMax);
    if (next.state == NextFrame::State::Bad) {
      if (next.error.is_ok()) std::abort();
      return 0;
    }
    if (next.state == NextFrame::State::NeedMore) {
      if (next.needed <= received - start || next.needed > kMax) std::abort();
      received += 1 + received % 7;
      continue;
    }
    if (next.frame.size > received - start || next.frame.size > kMax) std::abort();
    if (8 + next.frame.command.size() + next.frame.rest.size() != next.frame.size) std::abort();
    start += next.frame.size;
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned random) {
  static const std::vector<std::string> seeds = {
      fuzz::unhex("000000090000000508139a0100000000090000000508139a010000"),
      fuzz::unhex("0000000a0000000208060e01aabb0000000600000002081205"),
  };
  return fuzz::mutate_from(seeds, data, size, max_size, random);
}
