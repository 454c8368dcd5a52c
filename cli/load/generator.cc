#include "cli/load/generator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/rng.h"
#include "base/status.h"

namespace lightcone::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

enum Kind { kSearch, kUpsert, kRemove, kKinds };

constexpr Seconds kNapMax(0.05);  // longest pause between reads of `stop`

double Rank(const std::vector<float>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

// What one client saw of one kind of call.
struct Seen {
  std::vector<float> ms;
  int64_t failed = 0, operations = 0;
  absl::Status error;
};

class Load {
 public:
  Load(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors)
      : client_(client), plan_(plan), vectors_(vectors), written_(plan.first_free_id), removed_(plan.first_free_id) {}

  absl::StatusOr<LoadFigures> Run() {
    std::vector<std::array<Seen, kKinds>> seen(static_cast<size_t>(plan_.clients));
    start_ = Clock::now();
    measured_ = start_ + std::chrono::duration_cast<Clock::duration>(Seconds(plan_.warm_up_seconds));
    end_ = measured_ + std::chrono::duration_cast<Clock::duration>(Seconds(plan_.seconds));
    std::vector<std::thread> clients;
    for (auto& mine : seen) clients.emplace_back([this, &mine] { Work(mine); });
    for (std::thread& one : clients) one.join();
    if (Stopped()) return absl::CancelledError("interrupted");
    const double seconds = Seconds(std::max(Clock::now(), end_) - measured_).count();
    LoadFigures figures;
    figures.seconds = seconds;
    figures.next_free_id = written_.load();
    figures.missed = missed_.load();
    CallFigures* const kinds[] = {&figures.search, &figures.upsert, &figures.remove};
    absl::Status first_error;
    for (int kind = 0; kind < kKinds; ++kind) {
      *kinds[kind] = Gather(seen, kind, seconds, &first_error);
      figures.calls_a_second += static_cast<double>(kinds[kind]->calls) / seconds;
    }
    if (figures.calls_a_second == 0 && !first_error.ok()) return Annotate(first_error, "every call failed");
    return figures;
  }

 private:
  bool Stopped() const { return plan_.stop != nullptr && plan_.stop->load(std::memory_order_relaxed); }

  // One client: takes the next call until the time is over.
  void Work(std::array<Seen, kKinds>& seen) {
    while (!Stopped()) {
      const int64_t number = next_.fetch_add(1);
      Clock::time_point due = Clock::now();
      if (plan_.rate > 0) {
        due = start_ + std::chrono::duration_cast<Clock::duration>(Seconds(static_cast<double>(number) / plan_.rate));
        if (due >= end_) return;
        if (Clock::now() > end_ + (end_ - measured_)) {
          ++missed_;
          continue;
        }
        if (!WaitUntil(due)) return;
      } else if (due >= end_) {
        return;
      }
      Rng rng(MixSeed({plan_.seed, static_cast<uint64_t>(number)}));
      const Kind kind = KindOf(rng.Uniform());
      const absl::Status status = Call(kind, number, rng);
      if (due < measured_) continue;  // warms up
      Seen& mine = seen[static_cast<size_t>(kind)];
      if (status.ok()) {
        mine.ms.push_back(static_cast<float>(1e3 * Seconds(Clock::now() - due).count()));
        mine.operations += plan_.batch;
      } else {
        if (mine.failed++ == 0) mine.error = status;
      }
    }
  }

  // False when the load is to stop.
  bool WaitUntil(Clock::time_point due) const {
    for (;;) {
      if (Stopped()) return false;
      const Clock::duration left = due - Clock::now();
      if (left <= Clock::duration::zero()) return true;
      std::this_thread::sleep_for(std::min(left, std::chrono::duration_cast<Clock::duration>(kNapMax)));
    }
  }

  Kind KindOf(double drawn) const {
    if (drawn < plan_.mix.search) return kSearch;
    return drawn < plan_.mix.search + plan_.mix.upsert ? kUpsert : kRemove;
  }

  absl::Status Call(Kind kind, int64_t number, Rng& rng) {
    if (kind == kSearch) {
      const int64_t first = number * plan_.batch % vectors_.query_count();
      LC_ASSIGN_OR_RETURN(const v1::SearchResponse response,
                          client_.Search(SearchOf(plan_, vectors_, first, plan_.batch), {.retries_max = 0}));
      for (const v1::QueryResult& result : response.results()) {
        if (result.has_error()) return client::StatusOf(result.error());
      }
      if (response.partial()) return DeadlineExceeded("the answer is partial");
      return absl::OkStatus();
    }
    return kind == kUpsert ? Upsert(rng) : Remove();
  }

  absl::Status Upsert(Rng& rng) {
    v1::UpsertRequest request;
    request.set_collection(plan_.collection);
    const uint64_t first = written_.fetch_add(static_cast<uint64_t>(plan_.batch));
    for (uint64_t i = 0; i < static_cast<uint64_t>(plan_.batch); ++i) {
      v1::Item* item = request.add_items();
      item->mutable_id()->set_number(first + i);
      const std::span<const float> row =
          vectors_.item(static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(vectors_.item_count())));
      client::SetVector(row.data(), vectors_.dimension, item->mutable_vector());
    }
    return client_.Upsert(request, {.retries_max = 0}).status();
  }

  absl::Status Remove() {
    v1::DeleteRequest request;
    request.set_collection(plan_.collection);
    // An id that is not there yet is no error, and its later upsert stays.
    const uint64_t first = removed_.fetch_add(static_cast<uint64_t>(plan_.batch));
    for (uint64_t i = 0; i < static_cast<uint64_t>(plan_.batch); ++i) request.add_ids()->set_number(first + i);
    return client_.Delete(request, {.retries_max = 0}).status();
  }

  static CallFigures Gather(std::vector<std::array<Seen, kKinds>>& seen, int kind, double seconds,
                            absl::Status* first_error) {
    CallFigures figures;
    std::vector<float> ms;
    int64_t operations = 0;
    for (auto& client : seen) {
      Seen& mine = client[static_cast<size_t>(kind)];
      ms.insert(ms.end(), mine.ms.begin(), mine.ms.end());
      figures.failed += mine.failed;
      operations += mine.operations;
      if (figures.error.empty() && !mine.error.ok()) {
        figures.error = MessageOf(mine.error);
        if (first_error->ok()) *first_error = mine.error;
      }
    }
    std::sort(ms.begin(), ms.end());
    figures.calls = static_cast<int64_t>(ms.size());
    figures.rate = static_cast<double>(operations) / seconds;
    figures.ms = {Rank(ms, 0.5), Rank(ms, 0.9), Rank(ms, 0.99), Rank(ms, 0.999), Rank(ms, 1)};
    return figures;
  }

  client::Client& client_;
  const LoadPlan& plan_;
  const LoadVectors& vectors_;
  Clock::time_point start_, measured_, end_;
  std::atomic<int64_t> next_ = 0, missed_ = 0;
  std::atomic<uint64_t> written_, removed_;
};

}  // namespace

absl::StatusOr<LoadMix> ParseLoadMix(const std::string& text) {
  const auto refuse = [&] {
    return InvalidField(
        "--mix", StrCat("'", text, "'"),
        "shares of search, upsert and delete that sum to 1, such as search=0.9,upsert=0.08,delete=0.02");
  };
  LoadMix mix{.search = 0};
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    double share = 0;
    if (!absl::SimpleAtod(pair.second, &share) || !(share >= 0 && share <= 1)) return refuse();
    if (pair.first == "search") {
      mix.search = share;
    } else if (pair.first == "upsert") {
      mix.upsert = share;
    } else if (pair.first == "delete") {
      mix.remove = share;
    } else {
      return refuse();
    }
  }
  if (std::abs(mix.search + mix.upsert + mix.remove - 1) > 1e-9) return refuse();
  if (mix.remove > mix.upsert) {
    return InvalidField("--mix", StrCat("'", text, "'"), "no more deletions than upserts: what is deleted was written");
  }
  return mix;
}

absl::Status LoadPlan::Validate() const {
  if (clients < 1 || clients > 1024) return InvalidField("--clients", StrCat(clients), "1 .. 1024");
  if (batch < 1 || batch > 10'000) return InvalidField("--batch", StrCat(batch), "1 .. 10000");
  if (!(rate >= 0) || !std::isfinite(rate)) return InvalidField("--rate", StrCat(rate), "0 (closed loop) or more");
  if (!(seconds > 0) || seconds > 86'400) return InvalidField("--seconds", StrCat(seconds), "above 0, up to 86400");
  if (!(warm_up_seconds >= 0) || warm_up_seconds > 86'400) {
    return InvalidField("--warm-up", StrCat(warm_up_seconds), "0 .. 86400");
  }
  if (k < 1) return InvalidField("--k", StrCat(k), "1 or more");
  if (!(target_recall >= 0 && target_recall <= 1)) {
    return InvalidField("--target-recall", StrCat(target_recall), "above 0, up to 1");
  }
  return absl::OkStatus();
}

v1::SearchRequest SearchOf(const LoadPlan& plan, const LoadVectors& vectors, int64_t first_query, int64_t count) {
  v1::SearchRequest request;
  request.set_collection(plan.collection);
  request.set_k(plan.k);
  request.set_ef(plan.exact || plan.target_recall > 0 ? 0 : plan.ef);
  request.set_exact(plan.exact);
  if (plan.target_recall > 0 && !plan.exact) request.set_target_recall(plan.target_recall);
  if (plan.filter.has_value()) *request.mutable_filter() = *plan.filter;
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const float> query = vectors.query((first_query + i) % vectors.query_count());
    client::SetVector(query.data(), vectors.dimension, request.add_queries()->mutable_vector());
  }
  return request;
}

absl::StatusOr<LoadFigures> RunLoad(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors) {
  LC_RETURN_IF_ERROR(plan.Validate());
  if (vectors.query_count() < 1) return InvalidField("queries", "none", "at least one");
  if (plan.mix.writes() && vectors.item_count() < 1) return InvalidField("items", "none", "at least one to write");
  return Load(client, plan, vectors).Run();
}

}  // namespace lightcone::cli
