#include "server/engine/filter/payload_index.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr size_t kEntriesALock = 64;  // entries changed under one lock, because searches wait
constexpr size_t kEntriesABatch = 1'024;
constexpr uint64_t kAsksAMember = 8;  // Testing one id costs as much as adding so many to a set.
constexpr double kTestedShareMin = 1.0 / 6;
constexpr absl::Duration kRetry = absl::Seconds(10);
constexpr absl::Duration kIndexPoll = absl::Milliseconds(20);

// Threads that build the payload indexes of all collections.
SharedPool& BuildPool() {
  static auto* const pool = new SharedPool([] {});
  return *pool;
}

void AddName(std::vector<std::string>* names, const std::string& name) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

}  // namespace

PayloadIndex::Field::Field(PayloadField f)
    : field(std::move(f)), keys(*ParsePayloadPath(field.path, "path")), path(PathText(keys)), index(field.type) {}

PayloadIndex::~PayloadIndex() {
  std::unique_ptr<RecurringWork> work;
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  work.swap(work_);
}

void PayloadIndex::Declare(std::span<const PayloadField> fields) {
  LC_DCHECK(CheckPayloadFields(fields, "payload_fields").ok());
  absl::MutexLock lock(&mu_);
  std::vector<FieldPtr> next;
  for (const PayloadField& field : fields) {
    const auto known =
        std::find_if(fields_.begin(), fields_.end(), [&](const FieldPtr& f) { return f->field == field; });
    next.push_back(known != fields_.end() ? *known : std::make_shared<Field>(field));
  }
  fields_ = std::move(next);
  active_ = !fields_.empty();
  if (!Building() || stopping_) return;
  if (work_ != nullptr) {
    work_->Wake();
  } else {
    work_ = std::make_unique<RecurringWork>(BuildPool().Get(), [this] { return BuildDeclared(); });
  }
}

bool PayloadIndex::Building() const {
  return std::any_of(fields_.begin(), fields_.end(), [](const FieldPtr& field) { return !field->ready; });
}

absl::Duration PayloadIndex::BuildDeclared() {
  std::vector<FieldPtr> building;
  {
    absl::MutexLock lock(&mu_);
    for (const FieldPtr& field : fields_) {
      if (!field->ready) building.push_back(field);
    }
    if (building.empty() || stopping_) return absl::InfiniteDuration();
    reading_ = true;
    replaced_ = IdSet();
  }
  absl::StatusOr<size_t> damaged = size_t{0};
  try {
    damaged = Build(building);
  } catch (...) {
    damaged = StatusOfException();
  }
  const absl::Status status = damaged.status();
  absl::MutexLock lock(&mu_);
  reading_ = false;
  for (const FieldPtr& field : building) {
    field->ready = status.ok();
    if (field->ready) field->index.Settle();
    field->error = status;
    if (status.ok() && *damaged > 0) {
      field->error = DataLoss(StrCat(*damaged, " items are damaged (the log names them); they pass no filter here"));
    }
  }
  if (status.ok() || absl::IsCancelled(status)) return absl::ZeroDuration();  // Other fields may have been declared.
  spdlog::warn("payload index: {}; trying again in {} s", MessageOf(status), absl::ToInt64Seconds(kRetry));
  return kRetry;
}

absl::StatusOr<size_t> PayloadIndex::Build(const std::vector<FieldPtr>& fields) {
  const WorkPool::LongStep long_step;  // Few payloads do not wait behind very many.
  const uint64_t expected = source_->Payloads();
  {
    absl::MutexLock lock(&mu_);
    for (const FieldPtr& field : fields) field->index.Expect(expected);
  }
  std::vector<std::pair<uint64_t, std::string>> read;
  std::vector<Entry> entries;
  const auto flush = [&]() -> absl::Status {
    entries.clear();
    for (const auto& [id, json] : read) entries.emplace_back(id, json);
    Change(entries, fields,
           [this](FieldIndex& index, uint64_t id, const PayloadValues& values) ABSL_NO_THREAD_SAFETY_ANALYSIS {
             if (!replaced_.Contains(id)) index.Add(id, values);
           });
    read.clear();
    absl::ReaderMutexLock lock(&mu_);
    const bool wanted =
        std::any_of(fields.begin(), fields.end(), [this](const FieldPtr& field) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return std::find(fields_.begin(), fields_.end(), field) != fields_.end();
        });
    if (stopping_ || !wanted) return MakeStatus(absl::StatusCode::kCancelled, "nobody wants these fields any more");
    return absl::OkStatus();
  };
  std::vector<uint64_t> damaged;
  const auto visit = [&](uint64_t id, std::string_view json) -> absl::Status {
    read.emplace_back(id, json);
    return read.size() < kEntriesABatch ? absl::OkStatus() : flush();
  };
  LC_RETURN_IF_ERROR(source_->ForEachPayload(visit, &damaged));
  LC_RETURN_IF_ERROR(flush());
  absl::MutexLock lock(&mu_);
  damaged_.AddMany(damaged);
  return damaged.size();
}

std::vector<std::vector<PayloadValues>> PayloadIndex::Read(std::span<const Entry> entries,
                                                           const std::vector<FieldPtr>& fields) {
  std::vector<std::vector<PayloadValues>> all;
  all.reserve(entries.size());
  for (const auto& [id, json] : entries) {
    const Payload payload(json);
    std::vector<PayloadValues>& values = all.emplace_back();
    for (const FieldPtr& field : fields) {
      values.push_back(payload.At(field->keys));
      if (field->field.type == PayloadType::kText) values.back().CutTexts();
    }
  }
  return all;
}

void PayloadIndex::Change(std::span<const Entry> entries, const std::vector<FieldPtr>& fields,
                          absl::FunctionRef<void(FieldIndex&, uint64_t, const PayloadValues&)> change) {
  for (size_t begin = 0; begin < entries.size(); begin += kEntriesALock) {
    const auto part = entries.subspan(begin, std::min(kEntriesALock, entries.size() - begin));
    const auto values = Read(part, fields);
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < part.size(); ++i) {
      for (size_t f = 0; f < fields.size(); ++f) change(fields[f]->index, part[i].first, values[i][f]);
    }
  }
}

void PayloadIndex::Add(std::span<const Entry> entries) {
  if (!active()) return;
  std::vector<FieldPtr> fields;
  {
    absl::ReaderMutexLock lock(&mu_);
    fields = fields_;
  }
  Change(entries, fields, [](FieldIndex& index, uint64_t id, const PayloadValues& values) { index.Add(id, values); });
}

void PayloadIndex::Replace(std::span<const Replacement> replacements) {
  for (size_t begin = 0; active() && begin < replacements.size();) {
    const auto part = replacements.subspan(begin, std::min(kEntriesALock, replacements.size() - begin));
    std::vector<FieldPtr> fields;
    {
      absl::ReaderMutexLock lock(&mu_);
      fields = fields_;
    }
    std::vector<Entry> before, after;
    for (const Replacement& one : part) {
      before.emplace_back(one.internal_id, one.before);
      after.emplace_back(one.internal_id, one.after);
    }
    const auto old_values = Read(before, fields), new_values = Read(after, fields);
    absl::MutexLock lock(&mu_);
    if (fields != fields_) continue;  // A field that was declared meanwhile must not miss this.
    for (size_t i = 0; i < part.size(); ++i) {
      if (reading_) replaced_.Add(part[i].internal_id);
      for (size_t f = 0; f < fields.size(); ++f) {
        fields[f]->index.Remove(part[i].internal_id, old_values[i][f]);
        fields[f]->index.Add(part[i].internal_id, new_values[i][f]);
      }
    }
    begin += part.size();
  }
}

void PayloadIndex::Discard(uint64_t internal_id, std::string payload) {
  if (!active()) return;
  absl::MutexLock lock(&discard_mu_);
  discarded_.emplace_back(internal_id, std::move(payload));
}

absl::Status PayloadIndex::Sweep() {
  absl::MutexLock sweeping(&sweep_mu_);
  std::vector<std::pair<uint64_t, std::string>> discarded;
  {
    absl::MutexLock lock(&discard_mu_);
    discarded.swap(discarded_);
  }
  const auto put_back = [&](size_t begin) {
    absl::MutexLock lock(&discard_mu_);
    for (size_t i = begin; i < discarded.size(); ++i) discarded_.push_back(std::move(discarded[i]));
  };
  std::vector<FieldPtr> fields;
  bool reading = false;
  {
    absl::ReaderMutexLock lock(&mu_);
    reading = reading_;
    fields = fields_;
  }
  if (reading) {  // The builder may yet add what would be removed now.
    put_back(0);
    return absl::OkStatus();
  }
  for (size_t begin = 0; begin < discarded.size(); begin += kEntriesABatch) {
    const size_t end = std::min(begin + kEntriesABatch, discarded.size());
    std::vector<uint64_t> ids;
    for (size_t i = begin; i < end; ++i) ids.push_back(discarded[i].first);
    const auto gone = source_->Gone(ids);
    if (!gone.ok()) {
      put_back(begin);
      return gone.status();
    }
    std::vector<Entry> entries;
    for (size_t i = begin; i < end; ++i) {
      if ((*gone)[i - begin]) entries.emplace_back(discarded[i].first, discarded[i].second);
    }
    Change(entries, fields,
           [](FieldIndex& index, uint64_t id, const PayloadValues& values) { index.Remove(id, values); });
  }
  return absl::OkStatus();
}

IdBounds PayloadIndex::CompileNode(const FilterNode& node, uint32_t generation, bool may_test,
                                   CompiledFilter* out) const {
  switch (node.kind) {
    case FilterNode::Kind::kAnd: {
      if (may_test) return CompileAnd(node, generation, out);
      IdBounds all = IdBounds::Known(true);
      for (const FilterNode& child : node.children)
        all = And(std::move(all), CompileNode(child, generation, false, out));
      return all;
    }
    case FilterNode::Kind::kOr: {
      IdBounds any = IdBounds::Known(false);
      for (const FilterNode& child : node.children)
        any = Or(std::move(any), CompileNode(child, generation, false, out));
      return any;
    }
    case FilterNode::Kind::kNot:
      return Not(CompileNode(node.children[0], generation, false, out));
    default:
      break;
  }
  if (node.kind == FilterNode::Kind::kHasId) {
    if (out->ids == nullptr) return IdBounds::Unknown();
    const auto ids = out->ids->find(&node);
    return ids == out->ids->end() ? IdBounds::Unknown() : IdBounds{{ids->second, false, {}}, std::nullopt};
  }
  if (node.field == kGenerationField) return IdBounds::Known(MatchesGeneration(node, generation));
  const Field* const field = Find(node.field);
  AddName(field == nullptr ? &out->unindexed : &out->indexed, node.field);
  return field == nullptr ? IdBounds::Unknown() : field->index.Evaluate(node, may_test);
}

const PayloadIndex::Field* PayloadIndex::Find(const std::string& path) const {
  const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const FieldPtr& f) { return f->path == path; });
  return field == fields_.end() || !(*field)->ready ? nullptr : field->get();
}

void PayloadIndex::AddConditions(const FilterNode& node, std::vector<const FilterNode*>* conditions) {
  for (const FilterNode& child : node.children) {
    child.kind == FilterNode::Kind::kAnd ? AddConditions(child, conditions) : conditions->push_back(&child);
  }
}

IdBounds PayloadIndex::CompileAnd(const FilterNode& node, uint32_t generation, CompiledFilter* out) const {
  // Ranges of one field become their intersection: separate tests would overestimate the share of ids that pass.
  std::vector<std::pair<const Field*, std::vector<const FilterNode*>>> ranges;
  std::vector<const FilterNode*> others;
  std::vector<const FilterNode*> conditions;
  AddConditions(node, &conditions);
  for (const FilterNode* condition : conditions) {
    const Field* const field = condition->kind == FilterNode::Kind::kRange ? Find(condition->field) : nullptr;
    if (field == nullptr || !field->index.CanJoin(*condition)) {
      others.push_back(condition);
      continue;
    }
    AddName(&out->indexed, condition->field);
    const auto known = std::find_if(ranges.begin(), ranges.end(), [&](const auto& r) { return r.first == field; });
    (known != ranges.end() ? known->second : ranges.emplace_back(field, std::vector<const FilterNode*>()).second)
        .push_back(condition);
  }
  IdBounds all = IdBounds::Known(true);
  std::vector<std::pair<IdBounds, std::function<IdBounds()>>> tested;  // bounds with tests, and how to get their sets
  const auto take = [&](IdBounds bounds, std::function<IdBounds()> set) {
    if (bounds.upper().tests.empty()) {
      all = And(std::move(all), bounds);
    } else {
      tested.emplace_back(std::move(bounds), std::move(set));
    }
  };
  for (const auto& [field, of_field] : ranges) {
    const auto evaluate = [&index = field->index, &together = of_field](bool may_test) {
      return index.EvaluateRanges(together, may_test);
    };
    take(evaluate(true), [evaluate] { return evaluate(false); });
  }
  for (const FilterNode* child : others) {
    const auto compile = [=, this](bool may_test)
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return CompileNode(*child, generation, may_test, out); };
    take(compile(true), [compile] { return compile(false); });
  }
  // Few ids are tested one by one. If all tests together leave few ids, sets find them more cheaply.
  double share = 1;
  std::erase_if(tested, [&](const auto& one) {
    uint64_t met = UINT64_MAX;
    for (const auto& test : one.first.upper().tests) met = std::min(met, test->Count());
    if (!all.upper().others && all.upper().ids.Count() < met / kAsksAMember) {
      all = Restrict(std::move(all), one.first);
      return true;
    }
    for (const auto& test : one.first.upper().tests) share *= test->Share();
    return false;
  });
  for (auto& [bounds, set] : tested) all = And(std::move(all), share < kTestedShareMin ? set() : bounds);
  return all;
}

CompiledFilter PayloadIndex::Compile(const FilterNode& root, uint32_t generation, bool may_test,
                                     const IdsOfConditions* ids) const {
  CompiledFilter compiled;
  compiled.ids = ids;
  absl::ReaderMutexLock lock(&mu_);
  compiled.bounds = CompileNode(root, generation, may_test, &compiled);
  if (!damaged_.empty() && !compiled.indexed.empty()) {
    compiled.bounds = And(std::move(compiled.bounds), {{damaged_, true, {}}, std::nullopt});
  }
  compiled.ids = nullptr;
  return compiled;
}

absl::Status PayloadIndex::UseField(
    const std::string& path, absl::FunctionRef<void(const PayloadField& field, const FieldIndex& index)> use) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const FieldPtr& f) { return f->path == path; });
  if (field == fields_.end()) return NotFound(StrCat("no payload index over '", path, "'"));
  if (!(*field)->ready) return Unavailable(StrCat("the payload index over '", path, "' is being built"));
  use((*field)->field, (*field)->index);
  return absl::OkStatus();
}

std::vector<PayloadIndexStatus> PayloadIndex::Status() const {
  absl::ReaderMutexLock lock(&mu_);
  std::vector<PayloadIndexStatus> all;
  for (const FieldPtr& field : fields_) {
    all.push_back({field->field, field->ready, field->index.items(), field->index.bytes(), field->error});
    if (const uint64_t others = field->index.no_instants(); field->ready && field->error.ok() && others > 0) {
      all.back().error = FailedPrecondition(StrCat(
          others, others == 1 ? " item has" : " items have",
          " a text here that is no instant (RFC 3339, like 2024-05-01T12:30:00Z); no condition on a time holds"));
    }
  }
  return all;
}

uint64_t PayloadIndex::bytes() const {
  absl::ReaderMutexLock lock(&mu_);
  uint64_t bytes = 0;
  for (const FieldPtr& field : fields_) bytes += field->index.bytes();
  return bytes;
}

bool PayloadIndex::WaitReady(const std::function<bool()>& give_up) const {
  const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !Building(); };
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&ready), kIndexPoll)) {
    if (give_up && give_up()) return false;
  }
  return true;
}

}  // namespace lightcone::server
