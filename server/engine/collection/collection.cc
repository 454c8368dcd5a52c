#include "server/engine/collection/collection.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/stored_payloads.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kCancelPoll = absl::Milliseconds(20);

std::string ListOf(const std::vector<GenerationRecord>& generations) {
  std::string list;
  for (const GenerationRecord& g : generations) list += StrCat(list.empty() ? "" : ", ", g.generation);
  return list.empty() ? "none" : list;
}

// The ids of rows, from the cache or the store.
absl::Status ResolveIds(const Store& store, uint32_t number, IdCache& cache, std::span<const uint64_t> internal_ids,
                        std::vector<ResolvedRow>* rows) {
  std::vector<std::string> id_keys;
  std::vector<size_t> id_rows;
  for (size_t i = 0; i < internal_ids.size(); ++i) {
    ResolvedRow& row = (*rows)[i];
    if (std::optional<ItemId> id = cache.Find(internal_ids[i])) {
      row.id = std::move(*id);
      row.found = true;
      continue;
    }
    id_keys.push_back(keys::InternalId(number, internal_ids[i]));
    id_rows.push_back(i);
  }
  if (id_keys.empty()) return absl::OkStatus();
  const auto ids = store.MultiGet(Table::kItems, id_keys);
  for (size_t j = 0; j < ids.size(); ++j) {
    ResolvedRow& row = (*rows)[id_rows[j]];
    if (absl::IsNotFound(ids[j].status())) continue;
    if (!ids[j].ok()) return ids[j].status();
    LC_ASSIGN_OR_RETURN(row.id, keys::DecodeItemId(*ids[j]));
    row.found = true;
    cache.Add(internal_ids[id_rows[j]], row.id);
  }
  return absl::OkStatus();
}

// The records of the rows that ResolveIds found.
absl::Status ReadRecords(const Store& store, uint32_t number, std::span<const uint64_t> internal_ids,
                         std::vector<ResolvedRow>* rows) {
  std::vector<std::string> item_keys;
  std::vector<size_t> item_rows;
  for (size_t i = 0; i < rows->size(); ++i) {
    if (!(*rows)[i].found) continue;
    item_keys.push_back(keys::Item(number, (*rows)[i].id));
    item_rows.push_back(i);
  }
  if (item_keys.empty()) return absl::OkStatus();
  const auto items = store.MultiGet(Table::kItems, item_keys);
  for (size_t j = 0; j < items.size(); ++j) {
    ResolvedRow& row = (*rows)[item_rows[j]];
    row.found = false;
    if (absl::IsNotFound(items[j].status())) continue;
    if (!items[j].ok()) return items[j].status();
    LC_ASSIGN_OR_RETURN(row.record, DecodeItem(*items[j]));
    // A newer content of the item has other ids: the row's own content is among the retired then.
    row.found = row.record.internal_id == internal_ids[item_rows[j]];
  }
  return absl::OkStatus();
}

}  // namespace

const GenerationRecord* CollectionState::Find(uint32_t generation) const {
  return generation >= 1 && generation <= generations.size() ? &generations[generation - 1] : nullptr;
}

absl::StatusOr<const GenerationRecord*> CollectionState::Resolve(uint32_t asked) const {
  LC_ASSIGN_OR_RETURN(const GenerationRecord* found, ResolveAny(asked));
  if (!found->draft) return found;
  return FailedPrecondition(StrCat("generation ", found->generation, " of collection '", record.name, "' is a draft; ",
                                   "register it first (draft = ", found->generation, ")"));
}

absl::Status CollectionState::CheckNamed(uint32_t asked) const {
  if (asked != 0 || !record.require_generation) return absl::OkStatus();
  return InvalidField("generation", "not set",
                      StrCat("the generation that embedded the vectors, because collection '", record.name,
                             "' has the setting require_generation; there are: ", ListOf(generations)));
}

absl::StatusOr<const GenerationRecord*> CollectionState::ResolveAny(uint32_t asked) const {
  if (asked == 0 && record.active_generation == 0) {
    return FailedPrecondition(StrCat("collection '", record.name, "' has no active generation; activate one, or name ",
                                     "one; there are: ", ListOf(generations)));
  }
  const GenerationRecord* found = Find(asked == 0 ? record.active_generation : asked);
  if (found == nullptr) {
    return NotFound(
        StrCat("no generation ", asked, " in collection '", record.name, "'; there are: ", ListOf(generations)));
  }
  if (found->retired) {
    return FailedPrecondition(
        StrCat("generation ", found->generation, " of collection '", record.name, "' is retired"));
  }
  return found;
}

uint32_t HeadGeneration(const std::vector<uint32_t>& generations, uint32_t view_generation) {
  LC_DCHECK(!generations.empty());
  const auto above = std::upper_bound(generations.begin(), generations.end(), view_generation);
  return above == generations.begin() ? generations.front() : *std::prev(above);
}

int64_t OutOfReach(const IndexView& view, const CollectionState& state, const Reach& reach, uint32_t generation) {
  LC_DCHECK(state.Find(generation) != nullptr);
  const uint32_t last = state.record.last_generation;
  int64_t items = 0;
  for (const uint32_t g : view.Generations(last)) items += view.VisibleRows(g, last);
  for (const uint32_t g : reach.Of(generation)) items -= view.VisibleRows(g, generation);
  return std::max<int64_t>(0, items);
}

PinnedView::PinnedView(Collection* collection, std::shared_ptr<const IdSet> expired,
                       std::shared_ptr<const IndexView> view, uint64_t sequence)
    : collection_(collection), expired_(std::move(expired)), view_(std::move(view)), sequence_(sequence) {}

PinnedView::PinnedView(PinnedView&& other) noexcept
    : collection_(std::exchange(other.collection_, nullptr)),
      expired_(std::move(other.expired_)),
      view_(std::move(other.view_)),
      sequence_(other.sequence_) {}

PinnedView::~PinnedView() {
  if (collection_ != nullptr) collection_->Unpin(sequence_);
}

Collection::Collection(uint32_t number, Store* store, const ForwardClock* clock, std::string index_folder)
    : number_(number),
      store_(store),
      index_folder_(std::move(index_folder)),
      payload_source_(std::make_unique<StoredPayloads>(this)),
      payloads_(std::make_unique<PayloadIndex>(payload_source_.get())),
      expiry_(number, store, clock) {}

absl::StatusOr<std::shared_ptr<Collection>> Collection::Open(
    uint32_t number, Store* store, const ForwardClock* clock, const std::string& index_folder, CollectionRecord record,
    std::string encoded, std::vector<GenerationRecord> generations, AdapterSet adapters, ProgressRecord progress,
    const IndexLimits& index_limits, std::function<bool()> given_up) {
  std::shared_ptr<Collection> collection(new Collection(number, store, clock, index_folder));
  collection->opening_.Set(std::move(given_up));
  const absl::Cleanup forget = [opened = collection] { opened->opening_.Set({}); };
  const std::string step = StrCat("open collection '", record.name, "'");
  std::vector<std::pair<uint32_t, Space>> spaces;
  for (const GenerationRecord& g : generations) {
    if (!g.removed) spaces.emplace_back(g.generation, g.space);
  }
  auto index = CollectionIndex::Open(index_folder, record.index, spaces, collection.get(), index_limits);
  if (index.ok() && (*index)->newest_sequence_in_files() > progress.sequence) {
    // A power loss took writes that nobody had asked to be durable, but files of the index had them already.
    spdlog::warn("{}: the index is ahead of the store ({} > {}); rebuilding it", step,
                 (*index)->newest_sequence_in_files(), progress.sequence);
    index->reset();
    std::error_code error;
    std::filesystem::remove_all(index_folder, error);
    if (error) return Annotate(ErrnoStatus(error.value(), "remove", index_folder), step);
    index = CollectionIndex::Open(index_folder, record.index, spaces, collection.get(), index_limits);
  }
  if (!index.ok()) return Annotate(index.status(), step);
  collection->index_ = std::move(*index);
  {
    // Before the replay has ended, too: payload indexes, which are read from here on, ask how many items there are.
    absl::MutexLock lock(&collection->view_mu_);
    collection->progress_ = progress;
  }
  collection->SetState(std::move(record), std::move(encoded), std::move(generations), std::move(adapters));
  if (const absl::Status replayed = collection->Replay(progress.sequence); !replayed.ok()) {
    return Annotate(replayed, step);
  }
  LC_RETURN_IF_ERROR(Annotate(collection->expiry_.LookAhead(), step));
  const uint64_t sequence = progress.sequence;
  collection->SetPublished(sequence, std::move(progress));
  return collection;
}

Collection::~Collection() {
  bool dropped = false;
  {
    absl::MutexLock lock(&state_mu_);
    dropped = dropped_;
  }
  payloads_.reset();
  index_.reset();  // The index ends its background threads before the folder goes.
  if (!dropped) return;
  std::error_code ignored;  // The next start removes the rest: the marker is still there.
  std::filesystem::remove_all(index_folder_, ignored);
  if (!ignored && DeleteKeysOf(*store_, number_).ok()) {
    WriteBatch batch;
    batch.Delete(Table::kMeta, keys::Meta(DroppingName(number_)));
    (void)store_->Write(batch, Durability::kDurable);
  }
}

absl::Status DeleteKeysOf(Store& store, uint32_t number) {
  const keys::Range whole = keys::CollectionRange(number);
  for (const Table table :
       {Table::kGenerations, Table::kEmbeddings, Table::kOrder, Table::kChanges, Table::kInputs, Table::kProbes}) {
    LC_RETURN_IF_ERROR(store.DeleteRange(table, whole.begin, whole.end));
  }
  for (const keys::Range& range : {keys::ItemRange(number), keys::InternalIdRange(number), keys::ExpiryRange(number)}) {
    LC_RETURN_IF_ERROR(store.DeleteRange(Table::kItems, range.begin, range.end));
  }
  WriteBatch batch;
  for (const std::string& name : {ProgressName(number), BackfillName(number), BackfillHeadName(number)}) {
    batch.Delete(Table::kMeta, keys::Meta(name));
  }
  return store.Write(batch, Durability::kDurable);
}

std::shared_ptr<const CollectionState> Collection::state() const {
  absl::ReaderMutexLock lock(&state_mu_);
  return state_;
}

void Collection::Publish(std::optional<CollectionRecord> record, std::vector<GenerationRecord> generations,
                         AdapterSet adapters) {
  operator_mu_.AssertHeld();
  const auto before = state();
  std::string encoded = record ? Encode(*record) : before->encoded;
  SetState(record ? *std::move(record) : before->record, std::move(encoded), std::move(generations),
           std::move(adapters));
}

void Collection::SetState(CollectionRecord record, std::string encoded, std::vector<GenerationRecord> generations,
                          AdapterSet adapters) {
  auto state = std::make_shared<CollectionState>();
  state->encoded = std::move(encoded);
  state->record = std::move(record);
  state->generations = std::move(generations);
  state->reach = Reach(state->generations, std::move(adapters));
  const std::vector<PayloadField> fields = state->record.payload_fields;
  {
    absl::MutexLock lock(&state_mu_);
    state_ = std::move(state);
  }
  payloads_->Declare(fields);
}

absl::Status Collection::Apply(uint64_t sequence, std::span<const RowChange> changes) {
  absl::MutexLock lock(&index_mu_);
  return index_->Apply(sequence, changes);
}

absl::StatusOr<bool> Collection::AwaitRoom(absl::Time deadline) {
  const absl::StatusOr<bool> room = index_->AwaitRoom(deadline);
  if (!room.ok()) return Annotate(room.status(), StrCat("collection '", name(), "'"));
  return room;
}

absl::Status Collection::AddGeneration(uint32_t generation, const Space& space) {
  absl::MutexLock lock(&index_mu_);
  return index_->AddGeneration(generation, space);
}

absl::Status Collection::PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) {
  const absl::Status prepared = index_->PrepareDrop(generation, cancelled);
  return absl::IsNotFound(prepared) ? absl::OkStatus() : prepared;
}

absl::Status Collection::DropGeneration(uint32_t generation) {
  operator_mu_.AssertHeld();
  const absl::Status dropped = index_->DropGeneration(generation);
  return absl::IsNotFound(dropped) ? absl::OkStatus() : dropped;
}

void Collection::SetClosed(uint32_t generation, bool closed) {
  absl::MutexLock lock(&state_mu_);
  if (closed) {
    closed_.insert(generation);
  } else {
    closed_.erase(generation);
  }
}

bool Collection::closed(uint32_t generation) const {
  absl::ReaderMutexLock lock(&state_mu_);
  return closed_.contains(generation) || state_->generations[generation - 1].retired;
}

absl::Status Collection::Reconfigure(const IndexSettings& settings) {
  absl::MutexLock lock(&index_mu_);
  return index_->Reconfigure(settings, /*rebuild_now=*/true);
}

absl::Status Collection::Flush(const CallContext& context) {
  return index_->Flush(context.deadline, context.cancelled);
}

PinnedView Collection::Pin() {
  std::shared_ptr<const IdSet> expired = expiry_.Expired();
  std::shared_ptr<const IndexView> view;
  uint64_t sequence = 0;
  {
    absl::MutexLock lock(&view_mu_);
    view = index_->View();
    sequence = std::min(view->sequence(), published_);
    pins_.insert(sequence);
  }
  std::shared_ptr<const IdSet> later = expiry_.Expired();
  if (expired == nullptr || later == nullptr) {
    expired = expired == nullptr ? std::move(later) : std::move(expired);
  } else if (expired != later) {
    auto both = std::make_shared<IdSet>(*expired);
    *both |= *later;
    expired = std::move(both);
  }
  return PinnedView(this, std::move(expired), std::move(view), sequence);
}

PinnedView PinnedView::Again() const {
  {
    absl::MutexLock lock(&collection_->view_mu_);
    collection_->pins_.insert(sequence_);
  }
  return PinnedView(collection_, expired_, view_, sequence_);
}

void Collection::Unpin(uint64_t sequence) {
  absl::MutexLock lock(&view_mu_);
  pins_.erase(pins_.find(sequence));
  PruneRetired();
}

void Collection::PruneRetired() {
  const uint64_t floor = pins_.empty() ? published_ : std::min(published_, *pins_.begin());
  while (!retired_by_sequence_.empty() && retired_by_sequence_.begin()->first <= floor) {
    // A write that failed, and came again under a later sequence, is in the list twice: the later one counts.
    const auto item = retired_.find(retired_by_sequence_.begin()->second);
    if (item != retired_.end() && item->second.sequence <= floor) {
      payloads_->Discard(item->first, std::move(item->second.record.payload_json));
      retired_.erase(item);
    }
    retired_by_sequence_.erase(retired_by_sequence_.begin());
  }
}

uint64_t Collection::published_sequence() const {
  absl::MutexLock lock(&view_mu_);
  return published_;
}

ProgressRecord Collection::progress() const {
  absl::MutexLock lock(&view_mu_);
  return progress_;
}

void Collection::SetPublished(uint64_t sequence, ProgressRecord progress) {
  absl::MutexLock lock(&view_mu_);
  published_ = sequence;
  progress_ = std::move(progress);
  PruneRetired();
}

absl::Status Collection::WaitVisible(uint64_t sequence, const CallContext& context) {
  absl::MutexLock lock(&view_mu_);
  if (published_ >= sequence) return absl::OkStatus();
  if (context.deadline == absl::InfiniteFuture()) {
    return FieldError(absl::StatusCode::kOutOfRange, "wait_for_sequence", StrCat(sequence),
                      StrCat("at most ", published_, ", the newest, in a call without a deadline"));
  }
  const auto visible = [this, sequence]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return published_ >= sequence; };
  while (
      !view_mu_.AwaitWithDeadline(absl::Condition(&visible), std::min(context.deadline, absl::Now() + kCancelPoll))) {
    if (context.cancelled && context.cancelled()) {
      return MakeStatus(absl::StatusCode::kCancelled, "search: cancelled by the caller");
    }
    if (absl::Now() >= context.deadline) {
      return DeadlineExceeded(StrCat("the deadline was over before sequence ", sequence,
                                     " was visible; the newest visible is ", published_));
    }
  }
  return absl::OkStatus();
}

void Collection::Retire(std::vector<RetiredItem> items) {
  absl::MutexLock lock(&view_mu_);
  for (RetiredItem& item : items) {
    const uint64_t internal_id = item.record.internal_id;
    retired_by_sequence_.emplace(item.sequence, internal_id);
    retired_.insert_or_assign(internal_id, std::move(item));
  }
}

absl::StatusOr<std::vector<ResolvedRow>> Collection::ResolveRows(std::span<const uint64_t> internal_ids,
                                                                 bool with_record) const {
  std::vector<ResolvedRow> rows(internal_ids.size());
  LC_RETURN_IF_ERROR(ResolveIds(*store_, number_, id_cache_, internal_ids, &rows));
  if (with_record) LC_RETURN_IF_ERROR(ReadRecords(*store_, number_, internal_ids, &rows));
  const auto lost = [](const ResolvedRow& row) { return !row.found; };
  if (std::none_of(rows.begin(), rows.end(), lost)) return rows;
  absl::MutexLock lock(&view_mu_);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].found) continue;
    const auto retired = retired_.find(internal_ids[i]);
    if (retired != retired_.end())
      rows[i] = {true, retired->second.id, retired->second.record, retired->second.sequence};
  }
  return rows;
}

absl::StatusOr<std::vector<ResolvedRow>> Collection::CurrentRows(std::span<const uint64_t> internal_ids) const {
  std::vector<ResolvedRow> rows(internal_ids.size());
  LC_RETURN_IF_ERROR(ResolveIds(*store_, number_, id_cache_, internal_ids, &rows));
  LC_RETURN_IF_ERROR(ReadRecords(*store_, number_, internal_ids, &rows));
  return rows;
}

void Collection::MarkDropped() {
  absl::MutexLock lock(&state_mu_);
  dropped_ = true;
}

bool Collection::dropped() const {
  absl::ReaderMutexLock lock(&state_mu_);
  return dropped_;
}

}  // namespace lightcone::server
