#include "broker/compactor.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "base/endian.h"
#include "broker/compaction_test_support.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::chunk_entry;
using testing::contents_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Keyed;
using testing::keyed_batch;
using testing::keyed_entry;
using ::testing::SizeIs;

class CompactorTest : public testing::LedgerWorld {
 protected:
  void put(const Buffer& entry, std::uint32_t messages = 1) {
    ledger->append(entry, messages);
    ++appended;
  }
  void put(const Keyed& message) { put(keyed_entry(message)); }

  // One run over everything there is.
  Task<Status> compact() {
    co_await settled();
    const Position last = ledger->last_confirmed();
    Compactor run(shard(), *ledger, data, last, options, stopped);
    Status status = co_await run.choose();
    counts = run.counts();
    if (!status) co_return status;
    std::map<std::string, std::string> none;
    auto into = co_await store->create(std::move(none));
    if (!into) co_return into.status();
    written = *into;
    status = co_await run.write(*into);
    counts = run.counts();
    if (!status) co_return status;
    auto made = co_await CompactedLedger::of(*into, last);
    if (made) data = std::move(*made);
    co_return made.status();
  }

  Task<std::vector<std::string>> contents() {
    std::vector<std::string> texts;
    for (EntryId at = 0; at < data->entries(); ++at) {
      auto entries = co_await data->read_at(at, 1, 1);
      if (!entries) {
        ADD_FAILURE() << entries.status().to_string();
        break;
      }
      for (auto& text : contents_of(entries->front().data)) texts.push_back(std::move(text));
    }
    co_return texts;
  }

  std::shared_ptr<CompactedLedger> data;
  std::shared_ptr<Ledger> written;
  CompactorOptions options;
  CompactionCounts counts;
  bool stopped = false;
};

TEST_F(CompactorTest, KeepsTheLatestOfEachKeyInOrder) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    put({"a", "1"});
    put({"b", "1"});
    put({"a", "2"});
    put({"c", "1"});
    put({"b", ""});
    put({"", "no key"});
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("a=2", "c=1"));
    EXPECT_EQ(data->horizon(), ledger->last_confirmed());
    EXPECT_EQ(data->first(), (Position{ledger->first_position().ledger, 2}));
    EXPECT_EQ(data->last(), (Position{ledger->first_position().ledger, 3}));
    EXPECT_EQ(counts.messages_read, 6);
    EXPECT_EQ(counts.messages_kept, 2);
    EXPECT_EQ(counts.passes, 2);
    EXPECT_TRUE(written->sealed());
    // Its own data are read first by the next run.
    put({"d", "1"});
    put({"a", ""});
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("c=1", "d=1"));
    EXPECT_EQ(counts.messages_read, 4);
  });
}

TEST_F(CompactorTest, KeepsKeylessMessagesWhereToldTo) {
  run([&]() -> Task<void> {
    options.retain_null_key = true;
    CO_ASSERT_OK(co_await open());
    put({"", "x"});
    put({"a", "1"});
    put(keyed_batch({{"", "y"}, {"a", "2"}, {"", ""}}), 3);
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("=x", "=y", "a=2", "="));
  });
}

TEST_F(CompactorTest, LooksIntoBatchesAndLeavesThePlaces) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    put(keyed_batch({{"k1", "a"}, {"k2", ""}, {"k3", "c"}}, Codec::Zstd), 3);
    put(keyed_batch({{"k4", "a"}, {"k5", "b"}}), 2);
    put(keyed_batch({{"k4", "z"}, {"k5", ""}}), 2);
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("k1=a", "-", "k3=c", "k4=z", "-"));
    EXPECT_EQ(data->last_message().batch_index, 0);
    auto first = co_await data->read_at(0, 1, 1);
    CO_ASSERT_OK(first);
    EXPECT_EQ(first->front().messages, 3U);
    // What was taken out before stays so, and is not counted again.
    put({"k1", "b"});
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("-", "-", "k3=c", "k4=z", "-", "k1=b"));
    EXPECT_EQ(counts.messages_read, 4);
  });
}

TEST_F(CompactorTest, WritesAnEmptyLedgerWhenAllIsForgotten) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    put({"a", "1"});
    put({"a", ""});
    CO_ASSERT_OK(co_await compact());
    EXPECT_EQ(data->entries(), 0);
    EXPECT_EQ(data->last(), Position{});
    put({"b", "1"});
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("b=1"));
  });
}

TEST_F(CompactorTest, KeepsWhatItCannotLookInto) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    OutgoingMetadata metadata;
    metadata.partition_key = "k";
    metadata.num_messages_in_batch = 2;
    put(testing::entry_of(metadata, Buffer::copy_of("encrypted or worse")), 2);
    put({"k", "v"});
    put(Buffer::copy_of("garbage"));
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("?", "k=v", "?"));
    EXPECT_EQ(counts.messages_kept, 4);
  });
}

TEST_F(CompactorTest, KeepsTheChunksOfAMessageTogether) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    put(chunk_entry("old", 0, 2, "k", "o0"));
    put(chunk_entry("old", 1, 2, "k", "o1"));
    put(chunk_entry("new", 0, 3, "k", "n0"));
    put(chunk_entry("torn", 1, 2, "t", "t1"));  // its beginning is gone
    put(chunk_entry("new", 1, 3, "k", "n1"));
    put({"x", "1"});
    put(chunk_entry("new", 2, 3, "k", "n2"));
    put(chunk_entry("later", 0, 2, "k", "l0"));  // the rest is yet to come
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("k=n0", "k=n1", "x=1", "k=n2", "k=l0"));
    put(chunk_entry("later", 1, 2, "k", "l1"));
    CO_ASSERT_OK(co_await compact());
    EXPECT_THAT(co_await contents(), ElementsAre("x=1", "k=l0", "k=l1"));
  });
}

// Whatever the memory and the steps, the same is kept: what a map of the latest says.
TEST_F(CompactorTest, KeepsTheSameInAsManyPassesAsItTakes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  run([&]() -> Task<void> {
    std::mt19937 random(seed);
    config.max_entries_per_ledger = 37;
    CO_ASSERT_OK(co_await open());
    const Position start = Position::earliest();
    const auto holds = ledger->new_non_durable_cursor("holds the log", start);
    std::map<std::string, int> latest;
    for (int n = 0; n < 600; ++n) {
      std::vector<Keyed> messages;
      const std::size_t size = random() % 4 + 1;
      for (std::size_t i = 0; i < size; ++i) {
        const std::string key = "k" + std::to_string(random() % 400);
        const bool forget = random() % 6 == 0;
        const int value = n * 10 + static_cast<int>(i);
        messages.push_back({key, forget ? "" : std::to_string(value)});
        if (forget) {
          latest.erase(key);
        } else {
          latest[key] = value;
        }
      }
      if (size == 1) {
        put(messages.front());
      } else {
        put(keyed_batch(messages), static_cast<std::uint32_t>(size));
      }
      if (n == 300) CO_ASSERT_OK(co_await compact());
    }
    options.index_bytes = 32 * LatestByKey::kSlotBytes;
    options.step_entries = 7;
    CO_ASSERT_OK(co_await compact());
    EXPECT_GT(counts.passes, 8);
    std::vector<std::pair<int, std::string>> in_order;
    for (const auto& [key, value] : latest) in_order.emplace_back(value, key);
    std::sort(in_order.begin(), in_order.end());
    std::vector<std::string> expected;
    for (const auto& [value, key] : in_order) expected.push_back(key + "=" + std::to_string(value));
    std::vector<std::string> kept = co_await contents();
    std::erase(kept, "-");
    EXPECT_EQ(kept, expected);
  });
}

TEST_F(CompactorTest, StopsWhenTold) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    put({"a", "1"});
    stopped = true;
    EXPECT_TRUE((co_await compact()).is(ErrorCode::Cancelled));
  });
}

TEST_F(CompactorTest, TellsOfFailedReadsAndWrites) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    for (int i = 0; i < 300; ++i) put({"k" + std::to_string(i), "v"});
    co_await settled();
    store->set_cached(false);
    faults->decide = [](const std::string& op, const std::string&) {
      return op == "read" ? std::optional(testing::Fault{Status::Io("bad sector")}) : std::nullopt;
    };
    EXPECT_TRUE((co_await compact()).is(ErrorCode::Io));
    faults->decide = [](const std::string& op, const std::string&) {
      return op == "append" ? std::optional(testing::Fault{Status::DiskFull("full")})
                            : std::nullopt;
    };
    EXPECT_TRUE((co_await compact()).is(ErrorCode::DiskFull));
    faults->heal();
    CO_ASSERT_OK(co_await compact());
    EXPECT_EQ(data->entries(), 300);
  });
}

// Numbers of messages mean something only while what is read stays the same.
TEST_F(CompactorTest, FailsIfTheTopicIsTruncatedMeanwhile) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    for (int i = 0; i < 10; ++i) put({"k" + std::to_string(i), "v"});
    co_await settled();
    Compactor run(shard(), *ledger, nullptr, ledger->last_confirmed(), options, stopped);
    CO_ASSERT_OK(co_await run.choose());
    CO_ASSERT_OK(co_await ledger->truncate());
    std::map<std::string, std::string> none;
    auto into = co_await store->create(std::move(none));
    CO_ASSERT_OK(into);
    EXPECT_TRUE((co_await run.write(*into)).is(ErrorCode::Conflict));
  });
}

class CompactedLedgerTest : public CompactorTest {
 protected:
  // Ids of what is read from `from` on, as entry numbers.
  Task<std::vector<EntryId>> read_all(Position from, std::size_t max_entries) {
    std::vector<EntryId> ids;
    CompactedLedger::Place place;
    while (from <= data->last()) {
      std::vector<Entry> entries;
      if (data->read_cached(from, place, max_entries, 1 << 20, entries) == 0) {
        ++uncached;
        auto read = co_await data->read(from, &place, max_entries, 1 << 20);
        if (!read || read->empty()) {
          ADD_FAILURE() << "nothing at " << from.to_string();
          break;
        }
        entries = std::move(*read);
      }
      // A reader takes only a part of it.
      const std::size_t taken = (entries.size() + 1) / 2;
      for (std::size_t i = 0; i < taken; ++i) ids.push_back(entries[i].position.entry);
      from = {entries[taken - 1].position.ledger, entries[taken - 1].position.entry + 1};
    }
    co_return ids;
  }
  int uncached = 0;
};

TEST_F(CompactedLedgerTest, IsReadFromAnyId) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    std::vector<EntryId> kept;
    for (int i = 0; i < 1000; ++i) {
      put({i % 3 == 0 ? "k" + std::to_string(i) : "same", "v"});
      if (i % 3 == 0) kept.push_back(i);
    }
    CO_ASSERT_OK(co_await compact());
    kept.push_back(998);  // the last "same"
    std::sort(kept.begin(), kept.end());
    const LedgerId log = ledger->first_position().ledger;
    EXPECT_EQ(co_await read_all(Position::earliest(), 100), kept);
    EXPECT_EQ(uncached, 0);
    for (const EntryId from : {0, 1, 299, 300, 301, 998, 999, 1000}) {
      std::vector<EntryId> rest;
      for (const EntryId id : kept) {
        if (id >= from) rest.push_back(id);
      }
      EXPECT_EQ(co_await read_all({log, from}, 7), rest) << from;
    }
    store->set_cached(false);
    EXPECT_EQ(co_await read_all({log, 500}, 10), co_await read_all({log, 501}, 3));
  });
}

TEST_F(CompactedLedgerTest, FindsByTime) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    for (int i = 0; i < 50; ++i)
      put(keyed_entry({"k" + std::to_string(i), "v"}, 1000 + i * 10 + (i % 2 == 0 ? 15 : 0)));
    CO_ASSERT_OK(co_await compact());
    const LedgerId log = ledger->first_position().ledger;
    EXPECT_EQ((co_await data->first_published_at(0)).value(), (Position{log, 0}));
    const auto found = (co_await data->first_published_at(1300)).value();
    EXPECT_EQ(found, (Position{log, 30}));  // 28 was published at 1295, 29 at 1290
    EXPECT_EQ((co_await data->first_published_at(9000)).value(), std::nullopt);
  });
}

TEST_F(CompactedLedgerTest, HasTheFormThatPulsarWrites) {
  const Buffer entry = encode_compacted_entry({57, 59}, -1, keyed_entry({"k", "v"}).span());
  EXPECT_EQ(entry.view().substr(0, 19),
            std::string_view(
                "\0\0\0\x0f\x08\x39\x10\x3b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 19));
  const auto decoded = decode_compacted_entry(entry);
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded->position, (Position{57, 59}));
  EXPECT_THAT(contents_of(decoded->data), ElementsAre("k=v"));
  for (std::size_t size = 0; size < entry.size(); ++size) {
    EXPECT_TRUE(decode_compacted_entry(entry.slice(0, size)).is(ErrorCode::Corruption)) << size;
  }
}

}  // namespace
}  // namespace geminga
