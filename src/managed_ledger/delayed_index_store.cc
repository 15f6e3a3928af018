// How the delayed index is kept: the key that names its runs, writing, merging, loading.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/clock.h"
#include "base/log.h"
#include "managed_ledger/delayed_index.h"
#include "managed_ledger/for_all.h"

namespace geminga {

namespace {

// Items at the front of a full buffer that are looked at before it is written.
constexpr std::size_t kThinned = 8'192;
// A run whose first half, of so many blocks at least, is done with is written again without it.
constexpr std::size_t kWorthRewriting = 16;

}  // namespace

std::string DelayedIndex::path_of(std::string_view ledger_name) {
  return fmt::format("{}/{}", kRoot, ledger_name);
}

// "1", then a line "LEDGER ITEMS" for each run.
Result<std::vector<LedgerId>> DelayedIndex::ledgers_in(std::string_view value,
                                                       std::string_view path) {
  std::vector<LedgerId> ids;
  bool sound = value.starts_with("1\n");
  value.remove_prefix(std::min<std::size_t>(value.size(), 2));
  while (sound && !value.empty()) {
    const std::size_t end = value.find('\n');
    const std::string_view line = value.substr(0, end);
    LedgerId id = -1;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    sound = end != std::string_view::npos && error == std::errc() && id >= 0 &&
            stop != line.data() + line.size() && *stop == ' ';
    if (sound) {
      ids.push_back(id);
      value.remove_prefix(end + 1);
    }
  }
  if (sound) return ids;
  return Status::Corruption("the value of " + std::string(path) + " (" +
                            std::to_string(value.size()) + " bytes left) names no delayed index");
}

Task<Result<bool>> DelayedIndex::stored(MetadataStore& metadata, std::string ledger_name) {
  auto value = co_await metadata.get(path_of(ledger_name));
  if (!value) co_return value.status();
  co_return value->has_value() && !(*value)->value.empty();
}

Task<Status> DelayedIndex::load() {
  auto value = co_await env_.metadata->get(path_);
  if (!value) co_return value.status().with_context("the delayed index of " + ledger_name_);
  if (!*value || (*value)->value.empty()) co_return Status::ok();
  version_ = (*value)->stat.version;
  Status status;
  auto ids = ledgers_in((*value)->value, path_);
  if (ids) {
    Runs runs(ids->size());
    status = co_await for_all(*env_.shard, ids->size(), [&](std::size_t i) -> Task<Status> {
      auto run = co_await DelayedRun::open(*env_.ledgers, (*ids)[i], held_);
      if (run) runs[i] = std::move(*run);
      co_return run.status();
    });
    if (status) runs_ = std::move(runs);
  } else {
    status = ids.status();
  }
  if (!status) {
    held_.clear();
    if (!status.is(ErrorCode::Corruption) && !status.is(ErrorCode::NotFound)) {
      co_return status.with_context("the delayed index of " + ledger_name_);
    }
    GM_LOG_ERROR("{}: {}; the delayed index is made anew from the log", ledger_name_,
                 status.to_string());
    ++counters_.rebuilt;
    if (ids) dropped_ = *ids;
    key_behind_ = true;
  }
  work();
  arm();
  co_return Status::ok();
}

// ---- work in the background ----

bool DelayedIndex::any_dead_run() const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [](const auto& run) { return run->live_from == run->blocks(); });
}

bool DelayedIndex::work_left() const {
  return key_behind_ || !dropped_.empty() || !frozen_.empty() || any_dead_run() ||
         buffer_.size() >= options_.max_buffered || !runs_to_merge().empty();
}

void DelayedIndex::work() {
  if (working_ || closing_ || now_ms() < write_retry_ms_ || !work_left()) return;
  working_ = true;  // before the task, which begins inside spawn()
  if (!spawn(*env_.shard, gate_, [this]() -> Task<void> { co_await do_work(); })) working_ = false;
}

Task<void> DelayedIndex::do_work() {
  // Not in the turn of whoever added the item that was one too many.
  co_await sleep_for(Millis(0));
  while (!closing_ && work_left()) {
    const Status status = co_await work_once();
    tell_of_room();
    if (status) continue;
    ++counters_.write_errors;
    GM_LOG_WARN("{}: writing the delayed index failed, will be tried again: {}", ledger_name_,
                status.to_string());
    write_retry_ms_ = now_ms() + options_.retry_ms;
    break;
  }
  working_ = false;
  if (closing_) co_return;
  arm();
}

Task<Status> DelayedIndex::work_once() {
  if (key_behind_) {
    const Status status = co_await put_runs(runs_);
    co_return status;
  }
  if (!dropped_.empty()) co_return co_await remove_dropped();
  if (any_dead_run()) co_return co_await drop_dead_runs();
  if (!frozen_.empty()) co_return co_await write_frozen();
  if (buffer_.size() >= options_.max_buffered) {
    freeze_buffer();
    co_return Status::ok();
  }
  co_return co_await merge(runs_to_merge());
}

Task<Status> DelayedIndex::drop_dead_runs() {
  const std::uint64_t revision = revision_;
  Runs live;
  Runs dead;
  for (const auto& run : runs_) (run->live_from < run->blocks() ? live : dead).push_back(run);
  const Status status = co_await put_runs(live);
  if (!status) co_return status;
  if (revision != revision_) {
    key_behind_ = true;
    co_return status;
  }
  runs_ = std::move(live);
  for (const auto& run : dead) dropped_.push_back(run->id());
  std::erase_if(blocks_, [&](const Loaded& block) {
    return std::find(dead.begin(), dead.end(), block.run) != dead.end();
  });
  co_return status;
}

// What came and went in the meantime need not be written.
void DelayedIndex::freeze_buffer() {
  buffer_.erase_due_if(ripe_ms_, kThinned,
                       [this](const DelayedItem& item) { return !still_needed(item.position); });
  if (buffer_.size() >= options_.max_buffered / 4 * 3) frozen_ = std::exchange(buffer_, {});
}

bool DelayedIndex::still_needed(Position position) {
  if (!held_.contains(position)) return false;
  if (!done(position)) return true;
  held_.erase(position);
  return false;
}

Task<Status> DelayedIndex::write_frozen() {
  const std::uint64_t revision = revision_;
  DelayedRunWriter writer(*env_.ledgers, ledger_metadata());
  Status status;
  // The buffer stays as it is while it is written, unless the index is emptied.
  DelayedBuffer::Place place;
  while (status && revision == revision_) {
    const DelayedItem* item = frozen_.at(place);
    if (item == nullptr) break;
    if (still_needed(item->position)) writer.add(*item);
    frozen_.step(place);
    if (writer.block_full()) status = co_await writer.write_block();
  }
  if (!status || revision != revision_) {
    co_await writer.abandon();
    co_return status;
  }
  if (writer.items() > 0) {
    status = co_await install(writer, {}, revision);
    if (!status || revision != revision_) co_return status;
    ++counters_.written;
  }
  frozen_.clear();
  co_return status;
}

DelayedIndex::Runs DelayedIndex::runs_to_merge() const {
  const auto size_class = [this](const DelayedRun& run) {
    std::size_t level = 0;
    auto most = static_cast<std::int64_t>(2 * options_.max_buffered);
    for (; run.items() > most; most *= static_cast<std::int64_t>(options_.merge_runs)) ++level;
    return level;
  };
  for (const auto& run : runs_) {
    if (run->blocks() >= kWorthRewriting && run->live_from >= run->blocks() / 2) return {run};
    Runs alike;
    const std::size_t level = size_class(*run);
    for (const auto& other : runs_) {
      if (size_class(*other) == level) alike.push_back(other);
    }
    if (alike.size() >= options_.merge_runs) return alike;
  }
  return {};
}

Task<Status> DelayedIndex::merge(Runs from) {
  struct Source {
    std::shared_ptr<DelayedRun> run;
    std::size_t block = 0;
    std::vector<DelayedItem> items;
    std::size_t item = 0;
  };
  if (from.empty()) co_return Status::ok();
  const std::uint64_t revision = revision_;
  std::vector<Source> sources(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    sources[i].run = from[i];
    sources[i].block = from[i]->live_from;
  }
  DelayedRunWriter writer(*env_.ledgers, ledger_metadata());
  Status status;
  while (status && revision == revision_ && !closing_) {
    Source* next = nullptr;
    for (Source& source : sources) {
      if (source.item == source.items.size() && source.block < source.run->blocks()) {
        auto items = co_await source.run->read_block(source.block++);
        if (!items) {
          status = items.status();
          break;
        }
        source.items = std::move(*items);
        source.item = 0;
      }
      if (source.item == source.items.size()) continue;
      if (next == nullptr || source.items[source.item] < next->items[next->item]) next = &source;
    }
    if (!status || next == nullptr || revision != revision_) break;
    const DelayedItem& item = next->items[next->item++];
    if (still_needed(item.position)) writer.add(item);
    if (writer.block_full()) status = co_await writer.write_block();
  }
  if (!status || revision != revision_ || closing_) {
    co_await writer.abandon();
    if (status.is(ErrorCode::Corruption) || status.is(ErrorCode::NotFound)) {
      GM_LOG_ERROR("{}: {}; the delayed index is made anew from the log", ledger_name_,
                   status.to_string());
      ++counters_.rebuilt;
      if (revision == revision_ && !closing_) clear();
      co_return Status::ok();
    }
    co_return status;
  }
  if (writer.items() == 0) {
    for (const auto& run : from) run->live_from = run->blocks();
    co_return status;
  }
  status = co_await install(writer, std::move(from), revision);
  if (status) ++counters_.merged;
  co_return status;
}

Task<Status> DelayedIndex::install(DelayedRunWriter& writer, Runs replaced,
                                   std::uint64_t revision) {
  auto run = co_await writer.finish();
  if (!run || revision != revision_) {
    co_await writer.abandon();
    co_return run.status();
  }
  const auto is_replaced = [&](const std::shared_ptr<DelayedRun>& candidate) {
    return std::find(replaced.begin(), replaced.end(), candidate) != replaced.end();
  };
  Runs next;
  for (const auto& kept : runs_) {
    if (!is_replaced(kept)) next.push_back(kept);
  }
  next.push_back(*run);
  const Status put = co_await put_runs(next);
  if (!put || revision != revision_) {
    // The key may name it all the same.
    key_behind_ = true;
    dropped_.push_back((*run)->id());
    co_return put;
  }
  runs_ = std::move(next);
  for (const auto& run_before : replaced) dropped_.push_back(run_before->id());
  std::erase_if(blocks_, [&](const Loaded& block) { return is_replaced(block.run); });
  read_ahead();
  co_return put;
}

Task<Status> DelayedIndex::put_runs(Runs runs) {
  const std::uint64_t revision = revision_;
  Status status;
  if (runs.empty()) {
    if (version_ < 0 && key_behind_) {
      auto value = co_await env_.metadata->get(path_);
      if (!value) co_return value.status();
      if (*value) version_ = (*value)->stat.version;
    }
    if (version_ >= 0) status = co_await env_.metadata->remove(path_, version_);
    if (status.is(ErrorCode::NotFound)) status = Status::ok();
    if (status) version_ = -1;
  } else {
    std::string value = "1\n";
    for (const auto& run : runs)
      value += std::to_string(run->id()) + " " + std::to_string(run->items()) + "\n";
    auto put = co_await env_.metadata->put(path_, std::move(value), {.expected_version = version_});
    status = put.status();
    if (put) version_ = put->stat.version;
  }
  if (status && revision == revision_) key_behind_ = false;
  if (!status.is(ErrorCode::BadVersion)) co_return status;
  // An earlier write was applied although it failed. (Another owner of the topic would have fenced
  // its log: nothing is lost if the two overwrite each other here.)
  auto value = co_await env_.metadata->get(path_);
  if (value) version_ = *value ? (*value)->stat.version : -1;
  co_return status;
}

Task<Status> DelayedIndex::remove_dropped() {
  Status first;
  for (const LedgerId id : std::exchange(dropped_, {})) {
    const Status status = co_await env_.ledgers->remove(id);
    if (status) continue;
    dropped_.push_back(id);
    if (first) first = status.with_context("removing ledger " + std::to_string(id));
  }
  co_return first;
}

std::map<std::string, std::string> DelayedIndex::ledger_metadata() const {
  return {{"application", "geminga"},
          {"component", "delayed-index"},
          {"pulsar/managed-ledger", ledger_name_}};
}

// ---- the end ----

Task<void> DelayedIndex::stop() {
  closing_ = true;
  if (timer_) timer_->cancel();
  alive_.reset();
  co_await gate_.close();
}

Task<void> DelayedIndex::close() {
  if (closing_) co_return;
  co_await stop();
  for (auto at = frozen_.after(DelayedItem::before_all()); frozen_.at(at) != nullptr;
       frozen_.step(at)) {
    buffer_.insert(*frozen_.at(at));
  }
  frozen_ = std::exchange(buffer_, {});
  Status status;
  if (frozen_.size() >= options_.buffer_worth_closing) status = co_await write_frozen();
  if (status && key_behind_) status = co_await put_runs(runs_);
  if (status) status = co_await remove_dropped();
  if (!status) {
    GM_LOG_WARN(
        "{}: the end of the delayed index could not be written, it will be read from the "
        "log again: {}",
        ledger_name_, status.to_string());
  }
}

Task<void> DelayedIndex::remove() {
  if (closing_) co_return;
  co_await stop();
  for (const auto& run : std::exchange(runs_, {})) dropped_.push_back(run->id());
  // The key first: a crash then leaves ledgers that nobody refers to.
  Status status = co_await put_runs({});
  if (status) status = co_await remove_dropped();
  if (!status) {
    GM_LOG_WARN("{}: the delayed index could not be removed wholly: {}", ledger_name_,
                status.to_string());
  }
}

}  // namespace geminga
