#include "log_workload.h"

#include <algorithm>

#include "runtime/async.h"

namespace geminga::crash {

namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  return x;
}

}  // namespace

std::string payload(std::uint64_t life, LedgerId ledger, EntryId entry) {
  const std::uint64_t h = mix(life * 1000003 + static_cast<std::uint64_t>(ledger) * 8191 +
                              static_cast<std::uint64_t>(entry) * 31 + 7);
  std::size_t size = h % 2000;
  if (h % 17 == 0) size = h % 60'000;
  if (h % 101 == 0) size = h % 200'000;
  std::string text =
      std::to_string(life) + "/" + std::to_string(ledger) + "/" + std::to_string(entry) + "|";
  text.resize(std::max(size, text.size()));
  for (std::size_t i = 0; i + 8 <= text.size(); i += 512) {
    text[i + 7] = static_cast<char>('a' + mix(h + i) % 26);
  }
  return text;
}

std::uint32_t messages(EntryId entry) { return static_cast<std::uint32_t>(1 + entry % 3); }

void Workload::Known::append_done(LedgerId, EntryId id, const Status& status) {
  if (status) entries[static_cast<std::size_t>(id)].acknowledged = folder.trace().size();
}

Task<Workload::Known*> Workload::create(bool cursor) {
  const LedgerId id = next_id_++;  // ids are given in the order of the calls
  auto& known = known_[id];
  known = std::make_unique<Known>(folder_);
  known->create_asked = now();
  std::map<std::string, std::string> metadata{{"component", "managed-ledger"}};
  if (cursor) metadata["pulsar/cursor"] = "c";
  auto ledger = co_await store_.create(metadata);
  if (!ledger || (*ledger)->id() != id) co_return nullptr;
  known->created = now();
  known->handle = *ledger;
  co_return known.get();
}

void Workload::append(Known& ledger, int count) {
  for (int i = 0; i < count; ++i) {
    const auto entry = static_cast<EntryId>(ledger.entries.size());
    ledger.entries.push_back({now(), kNever});
    const auto id = ledger.handle->append(
        Buffer::copy_of(payload(life_, ledger.handle->id(), entry)), messages(entry), &ledger);
    if (!id) ledger.entries.pop_back();
  }
}

Task<void> Workload::worker(int number, int steps) {
  // The first worker keeps one small ledger for ever, as a cursor does.
  const bool cursor = number == 0;
  std::deque<Known*> mine;
  Known* first = co_await create(cursor);
  if (first == nullptr) co_return;
  mine.push_back(first);
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t dice = random_() % 100;
    if (cursor || dice < 80) {
      append(*mine.back(), cursor ? 1 : 1 + static_cast<int>(random_() % 12));
      for (std::uint64_t i = random_() % 6; i > 0; --i)
        co_await asio::post(shard_.executor(), asio::use_awaitable);
    } else {
      if (dice < 90) (void)co_await mine.back()->handle->seal();
      Known* next = co_await create(false);
      if (next == nullptr) co_return;
      mine.push_back(next);
      if (mine.size() > 3 || dice % 2 == 0) {
        Known* old = mine.front();
        mine.pop_front();
        old->remove_asked = now();
        const Status removed = co_await store_.remove(old->handle->id());
        if (removed) old->removed = now();
      }
    }
  }
}

Task<void> Workload::run(int workers, int steps) {
  Gate gate;
  for (int i = 0; i < workers; ++i) {
    spawn(shard_, gate, [this, i, steps] { return worker(i, steps); });
  }
  co_await gate.close();
}

Expectation Workload::expect_at(std::size_t events) const {
  Expectation expected;
  for (const auto& [id, known] : known_) {
    if (known->create_asked >= events) continue;
    if (known->created <= events) expected.used_id = std::max(expected.used_id, id);
    if (known->removed <= events) continue;
    LedgerExpectation& ledger = expected.ledgers[id];
    ledger.life = life_;
    ledger.must_exist = known->created <= events && known->remove_asked >= events;
    for (std::size_t i = 0; i < known->entries.size(); ++i) {
      if (known->entries[i].acknowledged <= events) ledger.min_last = static_cast<EntryId>(i);
      if (known->entries[i].asked < events) ledger.max_last = static_cast<EntryId>(i);
    }
  }
  return expected;
}

LogStoreOptions log_options(std::shared_ptr<MemoryFolder> folder) {
  LogStoreOptions options;
  options.folder = "memory";
  options.files = std::move(folder);
  options.io = LogIoKind::Inline;
  options.segment_bytes = 1 << 20;
  options.block_bytes = 16 << 10;
  options.max_batch_bytes = 128 << 10;
  options.cache_bytes = 256 << 10;
  options.read_ahead_blocks = 1;
  options.zero_fill = false;
  options.rewrite_below = 0.5;
  options.rewrite_bytes_per_second = 1 << 30;
  options.disk_reserve_bytes = 1;
  return options;
}

namespace {

Task<std::string> check_ledger(std::shared_ptr<Ledger> ledger, LedgerExpectation expected) {
  const std::string name = "ledger " + std::to_string(ledger->id());
  const EntryId last = ledger->last_confirmed();
  if (last < expected.min_last) {
    co_return name + " ends at " + std::to_string(last) + ", acknowledged was " +
        std::to_string(expected.min_last);
  }
  if (last > expected.max_last) {
    co_return name + " ends at " + std::to_string(last) + ", appended was " +
        std::to_string(expected.max_last);
  }
  std::int64_t sum = 0;
  std::int64_t bytes = 0;
  for (EntryId next = 0; next <= last;) {
    auto entries = co_await ledger->read(next, 50, 1 << 20);
    if (!entries) co_return name + ": " + entries.status().to_string();
    for (const LedgerEntry& entry : *entries) {
      const std::string where = name + " entry " + std::to_string(next);
      if (entry.id != next) co_return where + ": got " + std::to_string(entry.id);
      if (entry.data.view() != payload(expected.life, ledger->id(), next))
        co_return where + ": other bytes";
      if (entry.messages != messages(next)) co_return where + ": other count of messages";
      sum += entry.messages;
      bytes += static_cast<std::int64_t>(entry.data.size());
      ++next;
    }
  }
  if (ledger->messages() != sum) co_return name + ": messages are not the sum";
  if (ledger->bytes() != bytes) {
    co_return name + ": bytes are " + std::to_string(ledger->bytes()) + ", not the sum " +
        std::to_string(bytes);
  }
  auto through = co_await ledger->messages_through(last);
  if (!through || *through != sum) co_return name + ": messages_through is wrong";
  co_return "";
}

}  // namespace

Task<std::string> check(Shard& shard, MemoryBudget& budget, std::shared_ptr<MemoryFolder> folder,
                        Expectation expected, Expectation* seen) {
  auto opened = co_await open_log(shard, budget, log_options(folder));
  if (!opened) co_return "cannot open: " + opened.status().to_string();
  LogStore& store = **opened;
  std::string wrong;
  Expectation now;
  now.used_id = expected.used_id;
  for (const LedgerId id : store.list()) {
    auto known = expected.ledgers.find(id);
    if (known == expected.ledgers.end()) {
      wrong = "ledger " + std::to_string(id) + " exists";
      break;
    }
    auto ledger = co_await store.open(id);
    if (!ledger) {
      wrong = "ledger " + std::to_string(id) + ": " + ledger.status().to_string();
      break;
    }
    wrong = co_await check_ledger(*ledger, known->second);
    if (!wrong.empty()) break;
    const EntryId last = (*ledger)->last_confirmed();
    now.ledgers[id] = {true, last, last, known->second.life};
    now.used_id = std::max(now.used_id, id);
  }
  for (const auto& [id, ledger] : expected.ledgers) {
    if (wrong.empty() && ledger.must_exist && !now.ledgers.contains(id)) {
      wrong = "ledger " + std::to_string(id) + " is gone";
    }
  }
  if (wrong.empty()) {
    auto fresh = co_await store.create({});
    if (!fresh) {
      wrong = "cannot create: " + fresh.status().to_string();
    } else if ((*fresh)->id() <= now.used_id) {
      wrong = "the id " + std::to_string((*fresh)->id()) + " comes a second time";
    } else {
      const LedgerId id = (*fresh)->id();
      constexpr std::uint64_t kLife = 77;
      const auto appended =
          (*fresh)->append(Buffer::copy_of(payload(kLife, id, 0)), messages(0), nullptr);
      if (!appended) wrong = "cannot append: " + appended.status().to_string();
      const Status sealed = co_await (*fresh)->seal();
      if (!sealed) wrong = "cannot append: " + sealed.to_string();
      now.ledgers[id] = {true, 0, 0, kLife};
      now.used_id = id;
    }
  }
  if (seen != nullptr) *seen = std::move(now);
  co_await store.abandon();
  co_return wrong;
}

}  // namespace geminga::crash
