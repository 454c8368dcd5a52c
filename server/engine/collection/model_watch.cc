#include "server/engine/collection/model_watch.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr size_t kLooksACall = 128;
constexpr double kQueriesASecond = 10'000;
constexpr int64_t kRowsMin = 2 * int64_t{EmbeddingProfile::kRowsMin};
constexpr int64_t kSampleRows = 2'048;
// Rows up to which an alarm may mean that the first rows were of one kind. Nothing is refused before.
constexpr int64_t kRowsSettled = 8'192;
constexpr size_t kForeignParts = 20;  // One odd vector among more is no reason to refuse a call.
constexpr size_t kMostOf = 8;         // looks that are enough to say what most of a call's vectors are like
constexpr int64_t kNumbersMax = 16 << 20;
constexpr absl::Duration kHold = absl::Minutes(1);
constexpr absl::Duration kSilence = absl::Minutes(15);
constexpr int64_t kAnchors = 96, kRowsAnAnchor = 75;  // past that a stream of rows is given

struct ReasonWords {
  std::string_view name;  // as lists and metrics have it
  std::string_view text;  // of a warning
};
// In the order of ForeignReason.
constexpr std::array<ReasonWords, kForeignReasons> kWords = {{
    {"directions", "most of them point where its model's vectors never do, as those of another model, layer or seed"},
    {"some_directions", "one of twenty or more points where its model's vectors hardly do, as those of another model"},
    {"lengths", "they have lengths that its vectors do not have: one side is normalised, and the other is not"},
    {"place", "all moved at once, as by another prompt prefix, a sister of the model, or a sudden new subject"},
}};
constexpr std::array kReasons = {ForeignReason::kDirections, ForeignReason::kSomeDirections, ForeignReason::kLengths,
                                 ForeignReason::kPlace};
static_assert(kReasons.size() == kWords.size());

const ReasonWords& WordsOf(ForeignReason reason) { return kWords[static_cast<size_t>(reason)]; }

uint64_t DigestOf(std::span<const float> z) {
  return absl::HashOf(absl::string_view(reinterpret_cast<const char*>(z.data()), z.size_bytes()));
}

// Evenly spread places among `of`.
std::vector<size_t> PlacesOf(size_t of, size_t wanted) {
  std::vector<size_t> places;
  for (size_t i = 0; i < wanted; ++i) places.push_back(i * of / wanted);
  return places;
}

std::vector<std::string> NamesOf(const std::array<bool, kForeignReasons>& alarms) {
  std::vector<std::string> names;
  for (const ForeignReason reason : kReasons) {
    if (alarms[static_cast<size_t>(reason)]) names.emplace_back(WordsOf(reason).name);
  }
  return names;
}

}  // namespace

size_t ModelWatch::Budget::Take(size_t wanted) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  left_ = std::min(kQueriesASecond, left_ + seconds * kQueriesASecond);
  last_ = now;
  const size_t taken = std::min(wanted, static_cast<size_t>(left_));
  left_ -= static_cast<double>(taken);
  return taken;
}

ForeignFinding ModelWatch::LookAtRows(uint32_t generation, std::span<const std::span<const float>> vectors,
                                      bool by_time) {
  return LookAt(generation, by_time ? Of::kRowsByTime : Of::kRowsInSomeOrder, vectors);
}

ForeignFinding ModelWatch::LookAtQueries(uint32_t generation, std::span<const std::span<const float>> vectors) {
  return LookAt(generation, Of::kQueries, vectors);
}

ForeignFinding ModelWatch::LookAt(uint32_t generation, Of of, std::span<const std::span<const float>> vectors) {
  ForeignFinding finding;
  if (!watches() || vectors.empty()) return finding;
  const bool rows = of != Of::kQueries;
  ProfilePtr profile;
  size_t wanted = std::min(vectors.size(), kLooksACall);
  {
    absl::MutexLock lock(&mu_);
    const auto watched = generations_.find(generation);
    if (watched == generations_.end()) return finding;
    profile = watched->second.profile;
    if (!rows) wanted = queries_.Take(wanted);
  }
  const std::vector<size_t> places = PlacesOf(vectors.size(), wanted);
  std::vector<std::optional<EmbeddingProfile::Look>> looks;
  for (const size_t place : places) looks.push_back(profile->At(vectors[place]));
  const bool only_directions = collection_->state()->record.metric == Metric::kCosine;
  Alarms alarms{};
  bool most_foreign = false, any_foreign = false;
  std::vector<ForeignReason> changes;
  {
    absl::MutexLock lock(&mu_);
    const auto watched = generations_.find(generation);
    if (watched == generations_.end() || watched->second.profile != profile) return finding;  // learnt anew meanwhile
    Stream& stream = rows ? watched->second.items : watched->second.queries;
    const absl::Time now = absl::Now();
    size_t looked_at = 0, doubtful = 0, odd = 0;
    for (size_t i = 0; i < looks.size(); ++i) {
      if (!looks[i]) continue;
      const bool by_time = of != Of::kRowsInSomeOrder;
      if (!stream.of.Note(*looks[i], profile->axes(), DigestOf(vectors[places[i]]), by_time)) continue;
      if (by_time) stream.noted_at = now;
      stream.foreign += looks[i]->rare || looks[i]->odd_length ? 1 : 0;
    }
    for (size_t i = 0; i < looks.size(); ++i) {
      if (!looks[i]) continue;
      ++looked_at;
      doubtful += ForeignStream::IsDoubtful(*looks[i]) ? 1 : 0;
      if (!stream.of.IsForeign(*looks[i])) continue;
      ++odd;
      // Lengths change no answer where vectors are compared by their directions.
      if (looks[i]->rare || !only_directions) finding.refused.push_back(places[i]);
    }
    changes = TakeChanges(stream, now);
    if (changes.empty() && !stream.of.any_alarm()) return {};
    alarms = stream.of.alarms();
    most_foreign =
        alarms[static_cast<size_t>(ForeignReason::kDirections)] && looked_at >= kMostOf && 2 * doubtful >= looked_at;
    any_foreign = odd > 0 || most_foreign;
    if (watched->second.rows < kRowsSettled) finding.refused.clear();
    finding.most_refused = most_foreign && watched->second.rows >= kRowsSettled;
    finding.some_refused =
        finding.most_refused || (!finding.refused.empty() && finding.refused.size() * kForeignParts >= looked_at);
  }
  const auto is_on = [&](ForeignReason reason) { return alarms[static_cast<size_t>(reason)]; };
  Log(generation, rows, alarms, changes);
  if (!any_foreign && !is_on(ForeignReason::kPlace)) return {};
  std::vector<std::string> texts;
  for (const ForeignReason reason : kReasons) {
    if (is_on(reason)) texts.emplace_back(WordsOf(reason).text);
  }
  finding.warning = StrCat("the last ", rows ? "upserted vectors" : "queries", " may not come from the model of ",
                           NameOf(generation), ": ", absl::StrJoin(texts, "; "));
  return finding;
}

std::vector<ForeignReason> ModelWatch::TakeChanges(Stream& stream, absl::Time now) {
  std::vector<ForeignReason> changes;
  for (const ForeignReason reason : kReasons) {
    bool& logged = stream.logged[static_cast<size_t>(reason)];
    absl::Time& on_at = stream.on_at[static_cast<size_t>(reason)];
    if (stream.of.alarm(reason)) on_at = now;
    if (logged == (now - on_at < kHold)) continue;
    logged = !logged;
    changes.push_back(reason);
  }
  return changes;
}

void ModelWatch::Log(uint32_t generation, bool rows, const Alarms& alarms,
                     std::span<const ForeignReason> changes) const {
  const std::string_view what = rows ? "upserted vectors" : "queries";
  for (const ForeignReason reason : changes) {
    if (alarms[static_cast<size_t>(reason)]) {
      spdlog::warn("collection '{}': the last {} may not come from the model of {}: {}", collection_->name(), what,
                   NameOf(generation), WordsOf(reason).text);
    } else {
      spdlog::info("collection '{}': the alarm '{}' about {} of {} has ended", collection_->name(),
                   WordsOf(reason).name, what, NameOf(generation));
    }
  }
}

std::string ModelWatch::NameOf(uint32_t generation) const {
  const auto state = collection_->state();
  const GenerationRecord* const record = state->Find(generation);
  std::string name = StrCat("generation ", generation);
  if (record == nullptr || record->model.empty()) return name;
  name += StrCat(" (model '", record->model, "'");
  if (!record->revision.empty()) name += StrCat(", revision '", record->revision, "'");
  return name + ")";
}

absl::Status ModelWatch::Learn(Collection& collection, RowSamples& samples, const std::function<bool()>& cancelled) {
  LC_DCHECK(&collection == collection_);
  const auto state = collection.state();
  if (state->record.foreign_vectors == ForeignVectors::kIgnore) {
    absl::MutexLock lock(&mu_);
    watches_.store(false);
    generations_.clear();
    tried_.clear();
    return absl::OkStatus();
  }
  EndSilentAlarms();
  absl::Status first;
  bool is_oldest = true;
  for (const GenerationRecord& record : state->generations) {
    const uint32_t generation = record.generation;
    if (cancelled()) return absl::CancelledError("learning what embeddings have in common");
    const int64_t rows = record.retired ? 0 : collection.Pin()->VisibleRows(generation, generation);
    bool due = rows >= std::max(kRowsMin, 2 * tried_[generation]);
    {
      absl::MutexLock lock(&mu_);
      if (record.retired) generations_.erase(generation);
      const auto known = generations_.find(generation);
      if (known != generations_.end()) {
        const bool alarmed = known->second.items.of.any_alarm() || known->second.queries.of.any_alarm();
        due = due && (!alarmed || rows < kRowsSettled);
      }
    }
    if (due) {
      tried_[generation] = rows;
      first.Update(LearnOne(collection, record, rows, is_oldest, samples));
    }
    is_oldest = is_oldest && record.retired;
  }
  return first;
}

void ModelWatch::EndSilentAlarms() {
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mu_);
  for (auto& [generation, watched] : generations_) {
    for (Stream* const stream : {&watched.items, &watched.queries}) {
      if (stream->of.any_alarm() && now - stream->noted_at >= kSilence) stream->of = {};
      Log(generation, stream == &watched.items, stream->of.alarms(), TakeChanges(*stream, now));
    }
  }
}

absl::Status ModelWatch::LearnOne(Collection& collection, const GenerationRecord& record, int64_t rows, bool is_oldest,
                                  RowSamples& samples) {
  const uint32_t generation = record.generation;
  const int64_t rows_max = kNumbersMax / record.space.dimension;  // so that long vectors take no more memory
  std::vector<std::vector<float>> sample, past;
  {
    const PinnedView view = collection.Pin();
    LC_ASSIGN_OR_RETURN(sample, samples.Runs(*view, generation, std::min(kSampleRows, rows_max), 1));
  }
  std::optional<EmbeddingProfile> made = EmbeddingProfile::Make(sample);
  if (!made) return absl::OkStatus();  // The rows tell nothing, or what is known stays.
  if (is_oldest && kAnchors * kRowsAnAnchor <= rows_max) {
    // Ids follow the writing of contents, which is when the oldest generation embedded them.
    const PinnedView view = collection.Pin();
    LC_ASSIGN_OR_RETURN(past, samples.Runs(*view, generation, kAnchors, kRowsAnAnchor));
  }
  Watched learnt;
  learnt.rows = rows;
  learnt.profile = std::make_shared<const EmbeddingProfile>(*std::move(made));
  for (const std::vector<float>& z : past) {
    if (const auto look = learnt.profile->At(z)) learnt.items.of.Note(*look, learnt.profile->axes(), DigestOf(z));
  }
  // What is stored already is what is learnt from: it raises no alarm.
  if (learnt.items.of.any_alarm()) learnt.items.of = {};
  absl::MutexLock lock(&mu_);
  Watched& kept = generations_[generation];
  for (auto [to, from] : {std::pair{&learnt.items, &kept.items}, std::pair{&learnt.queries, &kept.queries}}) {
    to->foreign = from->foreign;
    to->logged = from->logged;
    to->on_at = from->on_at;
  }
  kept = std::move(learnt);
  watches_.store(true);
  return absl::OkStatus();
}

std::vector<ModelWatchStatus> ModelWatch::Status() const {
  std::vector<ModelWatchStatus> all;
  absl::MutexLock lock(&mu_);
  for (const auto& [generation, watched] : generations_) {
    ModelWatchStatus& status = all.emplace_back();
    status.generation = generation;
    status.rows_learnt = watched.rows;
    status.tells_directions = watched.profile->tells_directions();
    status.rows = {watched.items.foreign, NamesOf(watched.items.logged)};
    status.queries = {watched.queries.foreign, NamesOf(watched.queries.logged)};
  }
  return all;
}

}  // namespace lightcone::server
