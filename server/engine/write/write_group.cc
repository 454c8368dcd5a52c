#include "server/engine/write/write_group.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "store/envelope.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

// Bytes by which the changes of a group may make payloads longer, beyond what its jobs bring.
constexpr size_t kGrownBytesMax = 256 << 20;
// Bytes of stored heads, payloads included, that the jobs of a group may need together. One job may need more.
constexpr size_t kHeadBytesMax = 64 << 20;
constexpr size_t kHeadsAtOnce = 64;  // number of heads that are read before their bytes are counted

}  // namespace

WriteGroup::WriteGroup(Collection* collection, std::vector<WriteJob*> jobs, ProgressRecord* progress)
    : collection_(collection),
      number_(collection->number()),
      now_ms_(collection->expiry().NowMs()),
      jobs_(std::move(jobs)),
      leader_progress_(progress),
      progress_(*progress) {
  LC_DCHECK(!jobs_.empty());
  // Held by name: a temporary in a range's expression is gone before the loop begins, and the state may be replaced.
  const auto state = collection_->state();
  for (const GenerationRecord& g : state->generations) {
    if (g.retired && !g.removed) leaving_.push_back(g.generation);
  }
}

GroupOutcome WriteGroup::WriteToStore() {
  ReadHeads();
  batch_.Reserve(3 * heads_.size() + jobs_.size() + 1);
  const absl::Status room = CheckRoom();
  for (WriteJob* job : jobs_) {
    job->status = job->bytes == 0 || room.ok() ? DamageOf(*job) : room;
    if (!job->status.ok()) continue;
    Plan(job);
    durable_ = durable_ || (job->status.ok() && job->durability == Durability::kDurable);
  }
  if (changes_.empty()) {
    // Nothing to write, but what makes it so may be on its way to the disk and the index: these jobs wait for it, too.
    const auto good = [](const WriteJob* job) { return job->status.ok(); };
    return {std::any_of(jobs_.begin(), jobs_.end(), good), absl::OkStatus()};
  }
  const std::string encoded = Encode(progress_);
  batch_.Put(Table::kMeta, keys::Meta(ProgressName(number_)), encoded);
  wrote_ = true;
  collection_->Retire(std::move(retired_));
  const absl::Status status = collection_->store()->Write(batch_, Durability::kProcess);
  if (status.ok()) {
    *leader_progress_ = progress_;
    return {true, absl::OkStatus()};
  }
  for (WriteJob* job : jobs_) {
    if (job->status.ok()) job->status = status;
  }
  // A write that the disk refused may be in the store all the same, but always whole: the key that is inserted last
  // tells.
  const auto stored = collection_->store()->Get(Table::kMeta, keys::Meta(ProgressName(number_)));
  if (!stored.ok() && !absl::IsNotFound(stored.status())) {
    return {false, Unavailable(StrCat("collection '", collection_->name(),
                                      "' takes no more writes until a restart: ", MessageOf(stored.status())))};
  }
  if (!stored.ok() || *stored != encoded) return {};
  *leader_progress_ = progress_;
  return {true, absl::OkStatus()};
}

absl::Status WriteGroup::CheckRoom() const {
  uint64_t bytes = 0;
  for (const WriteJob* job : jobs_) bytes += job->bytes;
  if (bytes == 0) return absl::OkStatus();
  return Annotate(collection_->store()->CheckGrowth(bytes), StrCat("collection '", collection_->name(), "'"));
}

void WriteGroup::Sync() {
  LC_DCHECK(!synced_);
  synced_ = true;
  if (!durable_) return;
  const absl::Status synced = collection_->store()->Sync();
  for (WriteJob* job : jobs_) {
    if (job->status.ok()) job->status = synced;
  }
}

absl::Status WriteGroup::ApplyToIndex() {
  LC_DCHECK(synced_);
  for (const auto& [expires_ms, internal_id] : expiring_) collection_->expiry().Note(expires_ms, internal_id);
  for (const Change& change : changes_) {
    collection_->payloads().Add(change.payloads);
    collection_->payloads().Replace(change.replaced);
    const absl::Status applied = collection_->Apply(change.sequence, change.rows);
    if (!applied.ok()) {
      return Unavailable(
          StrCat("collection '", collection_->name(), "': the write of sequence ", change.sequence,
                 " is stored, but the index failed and takes no more until a restart: ", MessageOf(applied)));
    }
  }
  const uint64_t sequence = progress_.sequence;
  collection_->SetPublished(sequence, std::move(progress_));
  collection_->expiry().Forget(unexpiring_);  // after the counts have lost them
  collection_->expiry().CountRemoved(expired_);
  return absl::OkStatus();
}

void WriteGroup::ReadHeads() {
  std::vector<std::string> item_keys;
  std::vector<size_t> ends;  // of each job: number of keys up to its last one
  size_t items = 0;
  for (const WriteJob* job : jobs_) items += job->items.size() + job->ids.size();
  item_keys.reserve(items);
  heads_.reserve(items);
  const auto add = [&](std::string key) {
    if (heads_.try_emplace(key).second) item_keys.push_back(std::move(key));
  };
  for (const WriteJob* job : jobs_) {
    for (const PreparedItem& item : job->items) add(item.key);
    for (const ItemId& id : job->ids) add(keys::Item(number_, id));
    ends.push_back(item_keys.size());
  }
  size_t bytes = 0;
  for (size_t begin = 0; begin < item_keys.size(); begin += kHeadsAtOnce) {
    const size_t count = std::min(kHeadsAtOnce, item_keys.size() - begin);
    const auto piece = std::span<const std::string>(item_keys).subspan(begin, count);
    const auto records = collection_->store()->MultiGet(Table::kItems, piece);
    for (size_t i = 0; i < count; ++i) {
      bytes += records[i].ok() ? records[i]->size() : 0;
      if (bytes > kHeadBytesMax && begin + i >= ends[0]) {
        // The job of this key is the first that is left to a later group.
        const auto left = std::upper_bound(ends.begin(), ends.end(), begin + i);
        jobs_.resize(static_cast<size_t>(left - ends.begin()));
        for (size_t k = ends[jobs_.size() - 1]; k < item_keys.size(); ++k) heads_.erase(item_keys[k]);
        return;
      }
      AddHead(piece[i], records[i]);
    }
  }
}

void WriteGroup::AddHead(const std::string& key, const absl::StatusOr<std::string>& stored) {
  if (absl::IsNotFound(stored.status())) return;
  absl::Status status = stored.status();
  if (status.ok()) {
    absl::StatusOr<ItemRecord> record = DecodeItem(*stored);
    status = Annotate(record.status(), Place(Table::kItems, key));
    if (record.ok()) heads_[key] = *std::move(record);
  }
  if (!status.ok()) damaged_.emplace(key, std::move(status));
}

absl::Status WriteGroup::DamageOf(const WriteJob& job) const {
  if (damaged_.empty()) return absl::OkStatus();
  const auto of = [this](const std::string& key, const ItemId& id) {
    const auto found = damaged_.find(key);
    return found == damaged_.end() ? absl::OkStatus() : Annotate(found->second, StrCat("item ", ToString(id)));
  };
  for (const PreparedItem& item : job.items) LC_RETURN_IF_ERROR(of(item.key, item.id));
  for (const ItemId& id : job.ids) LC_RETURN_IF_ERROR(of(keys::Item(number_, id), id));
  return absl::OkStatus();
}

bool WriteGroup::IsThere(const PreparedItem& item, uint32_t generation, const Head& head) const {
  if (!Lives(head) || head->generations.empty() || head->generations.back() != generation) return false;
  const auto planned = planned_.find({head->internal_id, generation});
  if (planned != planned_.end()) return std::ranges::equal(planned->second, item.z);
  const auto stored =
      collection_->store()->Get(Table::kEmbeddings, keys::Embedding(number_, generation, head->internal_id));
  return stored.ok() && *stored == item.embedding;
}

absl::Status WriteGroup::CheckSameContent(const WriteJob& job, size_t i) const {
  const PreparedItem& item = job.items[i];
  const Head& head = heads_.find(item.key)->second;
  if (!Lives(head)) {
    return WithField(NotFound(StrCat("items[", i, "]: no item ", ToString(item.id), " in collection '",
                                     collection_->name(), "', of which this could be the same content")),
                     {StrCat("items[", i, "].id"), ToString(item.id), "ids of stored items"});
  }
  const uint32_t newest = head->generations.empty() ? 0 : head->generations.back();
  if (newest < job.generation) return absl::OkStatus();
  return WithField(
      FailedPrecondition(StrCat("items[", i, "]: item ", ToString(item.id), " is embedded by generation ", newest,
                                " already; the same content by generation ", job.generation,
                                newest == job.generation ? " has another embedding there" : " would be older")),
      {StrCat("items[", i, "].id"), ToString(item.id), StrCat("items of generations below ", job.generation)});
}

absl::StatusOr<std::vector<size_t>> WriteGroup::ItemsToWrite(const WriteJob& job,
                                                             std::vector<uint32_t>* outdated) const {
  std::vector<size_t> places;
  for (size_t i = 0; i < job.items.size(); ++i) {
    const PreparedItem& item = job.items[i];
    const Head& head = heads_.find(item.key)->second;
    if (job.same_content && IsThere(item, job.generation, head)) continue;  // a retry
    if (item.expected_sequence && *item.expected_sequence != (Lives(head) ? head->sequence : 0)) {
      outdated->push_back(static_cast<uint32_t>(i));
      continue;
    }
    if (job.same_content) LC_RETURN_IF_ERROR(CheckSameContent(job, i));
    if (job.keep_payload && !Lives(head)) {
      return WithField(NotFound(StrCat("items[", i, "]: no item ", ToString(item.id), " in collection '",
                                       collection_->name(), "', whose payload could be kept")),
                       {StrCat("items[", i, "].id"), ToString(item.id), "ids of stored items"});
    }
    places.push_back(i);
  }
  return places;
}

void WriteGroup::PlanUpsert(WriteJob* job) {
  if (collection_->closed(job->generation)) {
    job->status = FailedPrecondition(
        StrCat("generation ", job->generation, " of collection '", collection_->name(), "' is being retired"));
    return;
  }
  std::vector<uint32_t> outdated;
  const absl::StatusOr<std::vector<size_t>> places = ItemsToWrite(*job, &outdated);
  if (!places.ok()) {
    job->status = places.status();
    return;
  }
  job->result = {progress_.sequence, job->generation, static_cast<uint32_t>(job->items.size() - outdated.size()),
                 std::move(outdated)};
  job->written = places->size();
  if (places->empty()) return;
  ChangeRecord log;
  Change change;
  job->result.sequence = change.sequence = ++progress_.sequence;
  log.entries.reserve(places->size());
  change.rows.reserve(places->size());
  for (const size_t i : *places) {
    PreparedItem& item = job->items[i];
    Head& head = heads_.find(item.key)->second;
    job->same_content ? AddEmbedding(item, job->generation, &head, &log, &change)
                      : AddNewContent(item, *job, &head, &log, &change);
  }
  Finish(std::move(log), std::move(change));
}

void WriteGroup::Plan(WriteJob* job) {
  if (job->drop_generation != 0) return PlanDropGeneration(job);
  if (job->new_payload) return PlanPayloads(job);
  job->generation == 0 ? PlanDelete(job) : PlanUpsert(job);
}

bool WriteGroup::IsWanted(const WriteJob& job, size_t i, const ItemRecord& head) {
  if (job.expected.empty()) return true;
  const ExpectedHead& read = job.expected[i];
  if (read.internal_id == head.internal_id && read.sequence == head.sequence) return true;
  return job.still_wanted && job.still_wanted(job.ids[i], read, head);
}

absl::StatusOr<std::string> WriteGroup::WithinGrowth(const WriteJob& job, size_t before, const std::string& from,
                                                     std::string to) {
  // A change within arrays gives its object once an element: the length of a job does not bound what it makes.
  grown_ += to.size() - std::min(from.size() + job.bytes_added, to.size());
  if (grown_ <= kGrownBytesMax) return to;
  const bool alone = grown_ - before > kGrownBytesMax;
  return ResourceExhausted(StrCat("changes within arrays make payloads longer by more than ", kGrownBytesMax,
                                  " bytes together; ",
                                  alone ? "change fewer items at a time" : "others change some now: try again later"));
}

void WriteGroup::PlanPayloads(WriteJob* job) {
  std::vector<std::pair<size_t, std::string>> changed;  // place and new payload
  uint32_t found = 0;
  const size_t grown_before = grown_;
  for (size_t i = 0; i < job->ids.size(); ++i) {
    const Head& head = heads_.find(keys::Item(number_, job->ids[i]))->second;
    if (!Lives(head)) {
      job->missing.push_back(i);
      continue;
    }
    if (!IsWanted(*job, i, *head)) continue;
    absl::StatusOr<std::string> payload = absl::UnknownError("");
    try {
      payload = job->new_payload(job->ids[i], head->payload_json);
      if (payload.ok()) payload = WithinGrowth(*job, grown_before, head->payload_json, *std::move(payload));
    } catch (...) {  // Nothing of the job is planned yet: it fails alone.
      payload = StatusOfException();
    }
    if (!payload.ok()) {
      job->status = payload.status();
      grown_ = grown_before;
      return;
    }
    ++found;
    if (*payload != head->payload_json) changed.emplace_back(i, *std::move(payload));
  }
  if (!changed.empty()) {
    Change change;
    change.sequence = ++progress_.sequence;
    change.replaced.reserve(changed.size());
    for (auto& [i, payload] : changed) {
      std::string key = keys::Item(number_, job->ids[i]);
      ItemRecord& record = *heads_.find(key)->second;
      change.replaced.push_back({record.internal_id, std::move(record.payload_json), payload});
      record.payload_json = std::move(payload);
      record.sequence = change.sequence;
      batch_.Put(Table::kItems, std::move(key), EncodeItem(record));
    }
    Finish({}, std::move(change));
  }
  job->result = {progress_.sequence, 0, found, {}};
}

void WriteGroup::PlanDelete(WriteJob* job) {
  ChangeRecord log;
  Change change;
  change.sequence = progress_.sequence + 1;
  uint32_t deleted = 0;
  bool removed = false;
  for (size_t i = 0; i < job->ids.size(); ++i) {
    const ItemId& id = job->ids[i];
    const std::string key = keys::Item(number_, id);
    Head& head = heads_.find(key)->second;
    if (!head || !IsWanted(*job, i, *head)) continue;
    deleted += Lives(head);
    RemoveContent(id, head, &log, &change);
    batch_.Delete(Table::kItems, key);
    head.reset();
    removed = true;
  }
  if (removed) {
    progress_.sequence = change.sequence;
    Finish(std::move(log), std::move(change));
  }
  job->result = {progress_.sequence, 0, deleted, {}};
}

void WriteGroup::PlanDropGeneration(WriteJob* job) {
  uint32_t dropped = 0;
  for (const ItemId& id : job->ids) {
    std::string key = keys::Item(number_, id);
    Head& head = heads_.find(key)->second;
    if (!head || head->generations.size() < 2) continue;
    const auto at = std::find(head->generations.begin(), head->generations.end(), job->drop_generation);
    if (at == head->generations.end()) continue;
    Count(head->generations, -1);
    head->generations.erase(at);
    Count(head->generations, 1);
    // The embedding stays until all of the generation's go: searches that still find the row may ask for its vector.
    batch_.Put(Table::kItems, std::move(key), EncodeItem(*head));
    ++dropped;
  }
  // The sequence moves on, so that the batch is written and waited for as any other.
  if (dropped > 0) Finish({}, {++progress_.sequence, {}, {}, {}});
  job->result = {progress_.sequence, 0, dropped, {}};
}

void WriteGroup::RemoveContent(const ItemId& id, const Head& head, ChangeRecord* log, Change* change) {
  const ItemRecord& record = *head;
  batch_.Delete(Table::kItems, keys::InternalId(number_, record.internal_id));
  for (const auto* generations : {&record.generations, &std::as_const(leaving_)}) {
    for (const uint32_t generation : *generations) {
      batch_.Delete(Table::kEmbeddings, keys::Embedding(number_, generation, record.internal_id));
    }
  }
  if (record.has_input) batch_.Delete(Table::kInputs, keys::Input(number_, record.internal_id));
  if (record.expires_ms != 0) {
    batch_.Delete(Table::kItems, keys::Expiry(number_, record.expires_ms, record.internal_id));
    unexpiring_.push_back(record.internal_id);
    expired_ += IsExpired(record, now_ms_);
  }
  log->entries.push_back({ChangeRecord::Kind::kDelete, 0, record.internal_id, {}});
  change->rows.push_back({RowChange::Kind::kDelete, record.internal_id, 0, {}, {}, 0});
  Count(record.generations, -1);
  retired_.push_back({id, record, change->sequence});
}

void WriteGroup::AddNewContent(PreparedItem& item, const WriteJob& job, Head* head, ChangeRecord* log, Change* change) {
  const uint32_t generation = job.generation;
  ItemRecord record;
  record.expires_ms = item.ttl_ms > 0 ? now_ms_ + item.ttl_ms : 0;
  if (job.keep_payload) {
    item.payload_json = (*head)->payload_json;
    record.expires_ms = (*head)->expires_ms;
  }
  if (*head) RemoveContent(item.id, *head, log, change);
  record.internal_id = progress_.next_internal_id++;
  record.sequence = change->sequence;
  record.generations = {generation};
  record.payload_json = item.payload_json;
  change->payloads.emplace_back(record.internal_id, item.payload_json);
  record.has_input = item.input.has_value();
  batch_.Put(Table::kItems, keys::InternalId(number_, record.internal_id), keys::EncodeItemId(item.id));
  if (record.expires_ms != 0) {
    batch_.Put(Table::kItems, keys::Expiry(number_, record.expires_ms, record.internal_id), "");
    expiring_.emplace_back(record.expires_ms, record.internal_id);
  }
  PutEmbedding(item, generation, record);
  log->entries.push_back({ChangeRecord::Kind::kAdd, generation, record.internal_id, {}});
  change->rows.push_back({RowChange::Kind::kAdd, record.internal_id, generation, {}, item.z, item.uncertainty});
  Count(record.generations, 1);
  *head = std::move(record);
}

void WriteGroup::AddEmbedding(PreparedItem& item, uint32_t generation, Head* head, ChangeRecord* log, Change* change) {
  ItemRecord& record = **head;
  std::vector<uint32_t> older = record.generations;
  Count(older, -1);
  record.generations.push_back(generation);
  record.sequence = change->sequence;
  record.has_input = record.has_input || item.input.has_value();
  Count(record.generations, 1);
  PutEmbedding(item, generation, record);
  std::vector<uint32_t> superseded = WithLeaving(std::move(older));
  log->entries.push_back({ChangeRecord::Kind::kAdd, generation, record.internal_id, superseded});
  change->rows.push_back(
      {RowChange::Kind::kAdd, record.internal_id, generation, std::move(superseded), item.z, item.uncertainty});
}

std::vector<uint32_t> WriteGroup::WithLeaving(std::vector<uint32_t> generations) const {
  if (leaving_.empty()) return generations;
  generations.insert(generations.end(), leaving_.begin(), leaving_.end());
  std::sort(generations.begin(), generations.end());
  generations.erase(std::unique(generations.begin(), generations.end()), generations.end());
  return generations;
}

void WriteGroup::PutEmbedding(PreparedItem& item, uint32_t generation, const ItemRecord& record) {
  if (jobs_.size() > 1) planned_.insert_or_assign({record.internal_id, generation}, std::span<const float>(item.z));
  batch_.Put(Table::kItems, std::move(item.key), EncodeItem(record));
  batch_.Put(Table::kEmbeddings, keys::Embedding(number_, generation, record.internal_id), std::move(item.embedding));
  if (item.input) batch_.Put(Table::kInputs, keys::Input(number_, record.internal_id), *std::move(item.input));
}

void WriteGroup::Finish(ChangeRecord log, Change change) {
  batch_.Put(Table::kChanges, keys::Change(number_, change.sequence), EncodeChange(log));
  changes_.push_back(std::move(change));
}

void WriteGroup::Count(const std::vector<uint32_t>& generations, int64_t by) {
  uint64_t& count = progress_.items[generations];
  count = static_cast<uint64_t>(static_cast<int64_t>(count) + by);
  if (count == 0) progress_.items.erase(generations);
}

}  // namespace lightcone::server
