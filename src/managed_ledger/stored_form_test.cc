// Golden bytes: those of a real Pulsar 4.0.8 (docs/format/managed-ledger.md), and what we add to
// them.
#include "managed_ledger/stored_form.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <map>

#include "base/endian.h"

namespace geminga {
namespace {

using pulsar::ml::ManagedCursorInfo;
using pulsar::ml::PositionInfo;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return bytes;
}
std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

LedgerList ledger_38() {
  LedgerList list;
  list.push_back({.id = 38,
                  .entries = 20,
                  .bytes = 800,
                  .messages = 20,
                  .closed_ms = 1,
                  .messages_per_entry = 1});
  list.push_back({.id = 40});
  return list;
}

TEST(StoredForm, LedgerInfoIsPulsarsByteForByte) {
  for (const std::string_view hex :
       {"0a0408142000", "0a0e0826101418a00620fba380eaa2340a0408282000"}) {
    auto info = parse_ledger_info(from_hex(hex), "/managed-ledgers/x");
    ASSERT_TRUE(info.is_ok());
    EXPECT_EQ(to_hex(info->SerializeAsString()), hex);
  }
  auto info = parse_ledger_info(from_hex("0a0e0826101418a00620fba380eaa2340a0408282000"), "x");
  EXPECT_EQ(info->ledgerinfo(0).ledgerid(), 38);
  EXPECT_EQ(info->ledgerinfo(0).entries(), 20);
  EXPECT_EQ(info->ledgerinfo(0).size(), 800);
  EXPECT_EQ(info->ledgerinfo(1).ledgerid(), 40);
  EXPECT_FALSE(info->ledgerinfo(1).has_entries());
  EXPECT_TRUE(parse_ledger_info("", "x")->ledgerinfo().empty());  // a topic without ledgers yet
}

TEST(StoredForm, UnknownFieldsAreKept) {
  const std::string foreign =
      from_hex("0a0408142000") + from_hex("ca3e0568656c6c6f");  // field 1001... of a later Pulsar
  auto info = parse_ledger_info(foreign, "x");
  ASSERT_TRUE(info.is_ok());
  info->add_ledgerinfo()->set_ledgerid(21);
  EXPECT_NE(info->SerializeAsString().find("hello"), std::string::npos);
}

TEST(StoredForm, ANewCursorAndASnapshotArePulsarsBytes) {
  LedgerList list;
  list.push_back({.id = 28});
  CursorState state(list);
  ManagedCursorInfo info;
  info.set_cursorsledgerid(-1);
  info.set_lastactive(5);
  put_state(state, {}, true, &info);
  info.clear_gemingaackedmessages();
  EXPECT_EQ(to_hex(info.SerializeAsString()),
            "08ffffffffffffffffff01101c18ffffffffffffffffff013005");
  // The key while the state is in ledger 33.
  LedgerList list31;
  list31.push_back({.id = 31});
  CursorState state31(list31);
  info.set_cursorsledgerid(33);
  put_state(state31, {}, false, &info);
  EXPECT_EQ(to_hex(info.SerializeAsString()), "0821101f18ffffffffffffffffff013005");
}

TEST(StoredForm, RedeliveryCountsAreOursAndComeBack) {
  LedgerList list = ledger_38();
  for (int i = 0; i < 3; ++i) list.entry_added(10, 1);
  CursorState state(list);
  for (const Position position : {Position{38, 3}, {38, 4}, {38, 4}, {38, 19}, {40, 2}}) {
    ASSERT_TRUE(state.count_redelivery(position));
  }
  const auto check = [&](const CursorState& loaded) {
    EXPECT_EQ(loaded.redeliveries().size(), 4U);
    for (const auto& [position, count] : std::map<Position, std::uint32_t>{
             {{38, 3}, 1}, {{38, 4}, 2}, {{38, 19}, 1}, {{40, 2}, 1}}) {
      const std::uint32_t* found = loaded.redeliveries().find(position);
      ASSERT_NE(found, nullptr) << position.to_string();
      EXPECT_EQ(*found, count);
    }
  };
  bool complete = false;
  const std::string bytes = encode_position_info(state, {}, {}, &complete);
  EXPECT_TRUE(complete);
  // Field 1002, by ledger: how far each entry is behind the one before, and the counts.
  EXPECT_NE(bytes.find(from_hex("d23e0c08261203"
                                "04010f"
                                "1a03"
                                "010201")),
            std::string::npos)
      << to_hex(bytes);
  EXPECT_NE(bytes.find(from_hex("d23e08"
                                "0828"
                                "120103"
                                "1a0101")),
            std::string::npos)
      << to_hex(bytes);
  PositionProperties properties;
  CursorState from_ledger(list);
  ASSERT_TRUE(decode_position_info(bytes, from_ledger, properties).is_ok());
  check(from_ledger);
  ManagedCursorInfo info;
  put_state(state, {}, true, &info);
  CursorState from_key(list);
  load_state(info, from_key, properties);
  check(from_key);
  put_state(state, {}, false, &info);  // a snapshot has none
  EXPECT_EQ(info.gemingaredeliveries_size(), 0);

  // What is damaged or gone is left out.
  PositionInfo odd;
  odd.set_ledgerid(38);
  odd.set_entryid(3);
  auto* counts = odd.add_gemingaredeliveries();
  counts->set_ledgerid(38);
  for (const std::uint64_t step : {4U, 1U, 1U, 100U}) counts->add_steps(step);  // 3, 4, 5, 105
  for (const std::uint32_t count : {7U, 0U, 9U}) counts->add_counts(count);
  odd.add_gemingaredeliveries()->set_ledgerid(39);
  odd.mutable_gemingaredeliveries(1)->add_steps(~0ULL);
  odd.mutable_gemingaredeliveries(1)->add_counts(1);
  CursorState loaded(list);
  ASSERT_TRUE(decode_position_info(odd.SerializeAsString(), loaded, properties).is_ok());
  EXPECT_EQ(loaded.redeliveries().size(), 1U);
  EXPECT_EQ(*loaded.redeliveries().find({38, 5}), 9U);
}

TEST(StoredForm, RangesArePulsarsBytes) {
  const LedgerList list = ledger_38();
  CursorState state(list);
  state.ack_cumulative({38, 2});
  for (const EntryId entry : {5, 6, 9, 12}) state.ack({38, entry}, 1);
  ManagedCursorInfo info;
  info.set_cursorsledgerid(-1);
  put_state(state, {}, true, &info);
  EXPECT_EQ(info.gemingaackedmessages(), 7);
  info.clear_gemingaackedmessages();
  EXPECT_EQ(to_hex(info.SerializeAsString()),
            "08ffffffffffffffffff0110261802"
            "220c0a0408261004120408261006"
            "220c0a0408261008120408261009"
            "220c0a040826100b12040826100c");
  CursorState loaded(list);
  PositionProperties properties;
  load_state(info, loaded, properties);
  EXPECT_EQ(loaded.mark_delete(), (Position{38, 2}));
  EXPECT_FALSE(loaded.is_acked({38, 4}));
  EXPECT_TRUE(loaded.is_acked({38, 5}));
  EXPECT_TRUE(loaded.is_acked({38, 6}));
  EXPECT_TRUE(loaded.is_acked({38, 9}));
  EXPECT_FALSE(loaded.is_acked({38, 10}));
  EXPECT_EQ(loaded.backlog_entries(), 13);
}

TEST(StoredForm, BatchIndexesHaveOnesForWhatIsLeft) {
  LedgerList list;
  list.push_back({.id = 7});
  for (int i = 0; i < 3; ++i) list.entry_added(10, 70);
  CursorState state(list);
  AckSet remaining(2, ~std::uint64_t{0});
  remaining[0] = ~std::uint64_t{1};
  bool completed = false;
  state.ack_partly({7, 1}, remaining, 70, nullptr, &completed);
  bool complete = false;
  const std::string bytes = encode_position_info(state, {{"p", 9}}, {}, &complete);
  PositionInfo info;
  ASSERT_TRUE(info.ParseFromString(bytes));
  ASSERT_EQ(info.batchedentrydeletionindexinfo_size(), 1);
  const auto& batch = info.batchedentrydeletionindexinfo(0);
  EXPECT_EQ(batch.position().entryid(), 1);
  ASSERT_EQ(batch.deleteset_size(), 2);
  EXPECT_EQ(batch.deleteset(0), -2);
  EXPECT_EQ(batch.deleteset(1), 63);
  CursorState loaded(list);
  PositionProperties properties;
  ASSERT_TRUE(decode_position_info(bytes, loaded, properties).is_ok());
  EXPECT_EQ(properties.at("p"), 9);
  EXPECT_EQ(*loaded.ack_set({7, 1}), (AckSet{~std::uint64_t{1}, 63}));
  EXPECT_EQ(loaded.backlog_messages(), 209);
}

TEST(StoredForm, ReadsOldRangesOverLedgersAndBitSets) {
  LedgerList list;
  list.push_back(
      {.id = 1, .entries = 5, .bytes = 1, .messages = 5, .closed_ms = 1, .messages_per_entry = 1});
  list.push_back(
      {.id = 2, .entries = 3, .bytes = 1, .messages = 3, .closed_ms = 1, .messages_per_entry = 1});
  list.push_back(
      {.id = 3, .entries = 4, .bytes = 1, .messages = 4, .closed_ms = 1, .messages_per_entry = 1});
  PositionInfo info;
  info.set_ledgerid(1);
  info.set_entryid(0);
  auto* range = info.add_individualdeletedmessages();
  range->mutable_lowerendpoint()->set_ledgerid(1);
  range->mutable_lowerendpoint()->set_entryid(3);
  range->mutable_upperendpoint()->set_ledgerid(3);
  range->mutable_upperendpoint()->set_entryid(1);
  CursorState state(list);
  PositionProperties properties;
  ASSERT_TRUE(decode_position_info(info.SerializeAsString(), state, properties).is_ok());
  EXPECT_FALSE(state.is_acked({1, 3}));
  EXPECT_TRUE(state.is_acked({1, 4}));
  EXPECT_TRUE(state.is_acked({2, 0}));
  EXPECT_TRUE(state.is_acked({3, 1}));
  EXPECT_FALSE(state.is_acked({3, 2}));
  EXPECT_EQ(state.backlog_entries(), 5);

  info.clear_individualdeletedmessages();
  auto* bits = info.add_individualdeletedmessageranges();
  bits->set_key(3);
  bits->add_values(0b1010);
  ASSERT_TRUE(decode_position_info(info.SerializeAsString(), state, properties).is_ok());
  EXPECT_TRUE(state.is_acked({3, 1}));
  EXPECT_FALSE(state.is_acked({3, 2}));
  EXPECT_TRUE(state.is_acked({3, 3}));
  EXPECT_EQ(state.backlog_entries(), 9);
}

TEST(StoredForm, PositionsThatAreGoneAreCut) {
  const LedgerList list = ledger_38();
  CursorState state(list);
  state.restore({38, 500});
  state.restored(std::nullopt);
  EXPECT_EQ(state.mark_delete(), (Position{38, 19}));
  state.restore({20, -1});
  state.restored(7);
  EXPECT_EQ(state.mark_delete(), (Position{38, -1}));
  EXPECT_EQ(state.backlog_messages(), 20);
  state.restore({99, 3});
  state.restored(std::nullopt);
  EXPECT_EQ(state.mark_delete(), (Position{38, 19}));
  EXPECT_EQ(state.backlog_entries(), 0);
}

TEST(StoredForm, MoreThanTheLimitsIsLeftOutAndSaidSo) {
  LedgerList list;
  list.push_back({.id = 1,
                  .entries = 100'000,
                  .bytes = 1,
                  .messages = 100'000,
                  .closed_ms = 1,
                  .messages_per_entry = 1});
  CursorState state(list);
  for (EntryId entry = 1; entry < 100'000; entry += 2) state.ack({1, entry}, 1);
  bool complete = false;
  std::string bytes =
      encode_position_info(state, {}, {}, &complete);  // more than 10,000 ranges: bit sets
  EXPECT_TRUE(complete);
  EXPECT_LT(bytes.size(), 20'000U);
  CursorState loaded(list);
  PositionProperties properties;
  ASSERT_TRUE(decode_position_info(bytes, loaded, properties).is_ok());
  EXPECT_EQ(loaded.backlog_entries(), 50'000);
  EXPECT_EQ(loaded.acked_range_count(), state.acked_range_count());
  bytes = encode_position_info(state, {}, {.max_bytes = 100}, &complete);
  EXPECT_FALSE(complete);
  ASSERT_TRUE(decode_position_info(bytes, loaded, properties).is_ok());
  EXPECT_EQ(loaded.backlog_entries(), 100'000);
}

std::string compressed(pulsar::ml::CompressionType type, const std::string& plain) {
  std::string packed(plain.size() * 2 + 1000, '\0');
  switch (type) {
    case pulsar::ml::NONE: packed = plain; break;
    case pulsar::ml::LZ4:
      packed.resize(static_cast<std::size_t>(
          LZ4_compress_default(plain.data(), packed.data(), static_cast<int>(plain.size()),
                               static_cast<int>(packed.size()))));
      break;
    case pulsar::ml::ZLIB: {
      auto size = static_cast<uLongf>(packed.size());
      compress(reinterpret_cast<Bytef*>(packed.data()), &size,
               reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()));
      packed.resize(size);
      break;
    }
    case pulsar::ml::ZSTD:
      packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 3));
      break;
    case pulsar::ml::SNAPPY: snappy::Compress(plain.data(), plain.size(), &packed); break;
  }
  pulsar::ml::ManagedLedgerInfoMetadata header;
  header.set_compressiontype(type);
  header.set_uncompressedsize(static_cast<std::int32_t>(plain.size()));
  const std::string header_bytes = header.SerializeAsString();
  std::string value(6, '\0');
  store_be16(value.data(), 0x4778);
  store_be32(value.data() + 2, static_cast<std::uint32_t>(header_bytes.size()));
  return value + header_bytes + packed;
}

TEST(StoredForm, CompressedValuesAreReadDamagedOnesRefused) {
  pulsar::ml::ManagedLedgerInfo info;
  for (int i = 0; i < 500; ++i) info.add_ledgerinfo()->set_ledgerid(i);
  const std::string plain = info.SerializeAsString();
  for (const auto type : {pulsar::ml::NONE, pulsar::ml::LZ4, pulsar::ml::ZLIB, pulsar::ml::ZSTD,
                          pulsar::ml::SNAPPY}) {
    const std::string value = compressed(type, plain);
    auto parsed = parse_ledger_info(value, "x");
    ASSERT_TRUE(parsed.is_ok()) << type << " " << parsed.status().to_string();
    EXPECT_EQ(parsed->ledgerinfo_size(), 500);
    EXPECT_TRUE(
        parse_ledger_info(value.substr(0, value.size() / 2), "x").is(ErrorCode::Corruption));
    for (std::size_t size = 6; size < 16; ++size) {
      EXPECT_FALSE(parse_ledger_info(value.substr(0, size), "x").is_ok());
    }
  }
  std::string huge = compressed(pulsar::ml::LZ4, plain);
  store_be32(huge.data() + 2, 0xffffffff);
  EXPECT_TRUE(parse_ledger_info(huge, "x").is(ErrorCode::Corruption));
  EXPECT_TRUE(parse_cursor_info("\xff\xff\xff", "x").is(ErrorCode::Corruption));
}

}  // namespace
}  // namespace geminga
