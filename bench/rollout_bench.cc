// What rolling out a generation costs: the switch to it and back beside searches; then the lazy backfill, as searches
// notice it, by what it adds to encoding, and by how fast it leases.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/processor_time.h"
#include "base/programs.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/engine_gallery.h"
#include "bench/paced.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPairs = 25;  // of an activation and a rollback
constexpr int kSearchers = 2;
constexpr int kRounds = 7;  // a p99 varies by a third from one to the next
constexpr int kSearchesPerSecond = 200;
constexpr absl::Duration kPhase = absl::Seconds(6);
// The server begins a backfill at no rate of its own: this is the one of docs/guides/back-fill.md.
constexpr int64_t kBackfillRate = 200;  // items a second
constexpr int64_t kWorkerBatch = 500;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void AddAtLeast(Report& report, const std::string& name, const std::vector<double>& rates, const std::string& unit,
                double limit) {
  report.Add({.name = name,
              .value = Median(rates),
              .unit = unit,
              .peer = "the goal",
              .peer_value = limit,
              .ratio = Median(rates) / limit,
              .goal = StrCat("value >= ", limit),
              .met = Median(rates) >= limit,
              .spread = Spread(rates)});
}

// Activations and rollbacks while searches are in flight, none of which may fail or see a mixed view.
class Switches {
 public:
  Switches(const BenchOptions& options, Report& report)
      : report_(report), gallery_(options.folder + "/switches", options.dimension, options.life_items) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(gallery_.Fill(both_));
    std::vector<double> activations, rollbacks;
    std::atomic<bool> stop{false};
    std::vector<absl::Status> errors(kSearchers + 1);
    std::atomic<int64_t> searches{0};
    {
      std::vector<std::jthread> searchers;
      for (int s = 0; s < kSearchers; ++s) {
        searchers.emplace_back([&, s] {
          for (size_t i = static_cast<size_t>(s); !stop && errors[s].ok(); i += kSearchers, ++searches)
            errors[s] = Look(i);
          if (!errors[s].ok()) stop = true;
        });
      }
      errors.back() = SwitchOften(stop, searches, &activations, &rollbacks);
      stop = true;
    }
    for (const absl::Status& error : errors) LC_RETURN_IF_ERROR(error);
    const std::string beside =
        StrCat(", ", gallery_.items(), " items, ", kSearchers, " searching (", searches.load(), ")");
    report_.AddAtMost("activation" + beside, Median(activations), "ms", 100, Spread(activations));
    report_.AddAtMost("rollback" + beside, Median(rollbacks), "ms", 50, Spread(rollbacks));
    return absl::OkStatus();
  }

 private:
  absl::Status SwitchOften(const std::atomic<bool>& stop, const std::atomic<int64_t>& searches,
                           std::vector<double>* activations, std::vector<double>* rollbacks) {
    for (int pair = 0; pair <= kPairs && !stop; ++pair) {
      const int64_t before = searches;
      Clock::time_point start = Clock::now();
      LC_RETURN_IF_ERROR(gallery_.Activate(2));
      const double activation = MillisecondsSince(start);
      server::SwitchCall back;
      back.collection = EngineGallery::kName;
      start = Clock::now();
      LC_RETURN_IF_ERROR(gallery_.engine().RollbackGeneration(back).status());
      const double rollback = MillisecondsSince(start);
      // Searches that began under any of the views have ended before the next pair.
      while (!stop && searches < before + 4 * kSearchers) absl::SleepFor(absl::Milliseconds(1));
      if (pair == 0) continue;  // warm-up
      activations->push_back(activation);
      rollbacks->push_back(rollback);
    }
    return absl::OkStatus();
  }

  // Whether one answer is of one view: items of both generations are there by the one that serves, others by the first.
  absl::Status Look(size_t i) const {
    LC_ASSIGN_OR_RETURN(const server::SearchAnswer answer, gallery_.Search(i));
    const uint32_t serving = answer.serving_generation;
    const auto& hits = answer.results[0].hits;
    if (hits.empty() || answer.partial) return Internal("a search beside an activation was not whole");
    for (const server::EngineHit& hit : hits) {
      const bool both = std::get<uint64_t>(hit.id.value) < static_cast<uint64_t>(both_);
      if (hit.generation != (both ? serving : 1)) {
        return Internal(StrCat("a mixed view: ", ToString(hit.id), " by generation ", hit.generation, " while ",
                               serving, " serves"));
      }
    }
    return absl::OkStatus();
  }

  Report& report_;
  EngineGallery gallery_;
  // Of the items, that both generations have embedded.
  const int64_t both_ = gallery_.items() / 10;
};

// Searches at a steady rate, without and with something beside them, by turns.
class SearchesBeside {
 public:
  explicit SearchesBeside(const EngineGallery& gallery) : gallery_(gallery) {}

  // `begin` starts what `end` stops or waits for; searches are measured in between.
  template <typename Begin, typename End>
  absl::Status Round(Begin begin, End end) {
    LC_ASSIGN_OR_RETURN(const double alone, P99());
    LC_RETURN_IF_ERROR(begin());
    const absl::StatusOr<double> beside = P99();
    LC_RETURN_IF_ERROR(end());
    LC_RETURN_IF_ERROR(beside.status());
    if (warm_) {
      idle_.push_back(alone);
      busy_.push_back(*beside);
      ratios_.push_back(*beside / alone);
    }
    warm_ = true;
    return absl::OkStatus();
  }

  void Tell(const std::string& what, double ratio_max, Report& report) const {
    report.Add({.name = "search p99 beside " + what,
                .value = Median(busy_),
                .unit = "ms",
                .peer = "the same without",
                .peer_value = Median(idle_),
                .ratio = Median(ratios_),
                .goal = StrCat("ratio <= ", ratio_max),
                .met = Median(ratios_) <= ratio_max,
                .spread = Spread(ratios_)});
  }

 private:
  absl::StatusOr<double> P99() const {
    std::vector<double> latencies;
    size_t next = 0;
    const absl::Time begin = absl::Now();
    LC_RETURN_IF_ERROR(Paced(begin, begin + kPhase, absl::Seconds(1) / kSearchesPerSecond, &latencies,
                             [&] { return gallery_.Search(next++).status(); }));
    return Percentile99(latencies);
  }

  const EngineGallery& gallery_;
  bool warm_ = false;  // the first round is not counted
  std::vector<double> idle_, busy_, ratios_;
};

class BackfillBench {
 public:
  BackfillBench(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        gallery_(options.folder + "/backfill", options.dimension, options.items, ProgramBeside("lightcone-model")) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(gallery_.Fill());
    LC_RETURN_IF_ERROR(gallery_.Activate(2));
    server::StartBackfillCall start;
    start.collection = EngineGallery::kName;
    LC_RETURN_IF_ERROR(gallery_.engine().StartBackfill(start).status());
    while (true) {
      LC_ASSIGN_OR_RETURN(const server::BackfillStatus status, gallery_.engine().GetBackfill(EngineGallery::kName));
      LC_RETURN_IF_ERROR(status.error);
      if (status.state == server::BackfillState::kRunning) break;
      absl::SleepFor(absl::Milliseconds(20));
    }
    LC_RETURN_IF_ERROR(MeasureLeases());
    LC_RETURN_IF_ERROR(MeasureSearches());
    LC_RETURN_IF_ERROR(MeasureTraining());
    return MeasureOverhead();
  }

 private:
  absl::StatusOr<server::LeaseAnswer> Lease(int64_t items) {
    LC_ASSIGN_OR_RETURN(server::LeaseAnswer lease,
                        gallery_.engine().LeaseBackfill({EngineGallery::kName, items, absl::Hours(1), token_}));
    token_ = lease.token;
    if (lease.items.empty()) return Internal("the backfill is through: it needs more --items");
    return lease;
  }

  // One worker that leases and gives back.
  absl::Status MeasureLeases() {
    std::vector<double> rates;
    for (int round = 0; round <= kRounds; ++round) {
      const int64_t wanted = gallery_.items() / 20;
      int64_t leased = 0;
      const Clock::time_point start = Clock::now();
      while (leased < wanted) {
        LC_ASSIGN_OR_RETURN(const server::LeaseAnswer lease, Lease(kWorkerBatch));
        leased += static_cast<int64_t>(lease.items.size());
      }
      if (round > 0) rates.push_back(1000 * static_cast<double>(leased) / MillisecondsSince(start));
    }
    AddAtLeast(report_, StrCat("leases of ", kWorkerBatch, " ids, 1 worker, of ", gallery_.items()), rates, "ids/s",
               10'000);
    return absl::OkStatus();
  }

  // Leases up to `items` and upserts what an encoder that costs nothing makes of them.
  absl::StatusOr<int64_t> Embed(int64_t items, int64_t vectors_from, const std::vector<float>& vectors) {
    LC_ASSIGN_OR_RETURN(const server::LeaseAnswer lease, Lease(items));
    server::UpsertBatch batch;
    batch.collection = EngineGallery::kName;
    batch.generation = lease.generation;
    batch.same_content = true;
    const int64_t d = options_.dimension, rows = static_cast<int64_t>(vectors.size()) / d;
    for (const server::LeasedItem& leased : lease.items) {
      server::UpsertItem& item = batch.items.emplace_back();
      item.id = leased.id;
      item.expected_sequence = leased.sequence;
      const auto row = vectors.begin() + vectors_from++ % rows * d;
      item.content = std::vector<float>(row, row + d);
    }
    LC_ASSIGN_OR_RETURN(const server::WriteResult written, gallery_.engine().Upsert(std::move(batch), {}));
    if (!written.outdated.empty()) return Internal("items of the backfill changed under it");
    return written.items;
  }

  absl::Status MeasureSearches() {
    const std::vector<float> vectors = gallery_.VectorsOf(0, 10'000);
    SearchesBeside searches(gallery_);
    int64_t embedded = 0;
    absl::Status embedding;
    std::jthread worker;
    const auto begin = [&] {
      worker = std::jthread([&] {
        const absl::Time begin = absl::Now();
        constexpr int64_t kBatch = kBackfillRate / 10;
        embedding = Paced(begin, begin + kPhase, absl::Seconds(kBatch) / kBackfillRate, nullptr, [&]() -> absl::Status {
          LC_ASSIGN_OR_RETURN(const int64_t items, Embed(kBatch, embedded, vectors));
          embedded += items;
          return absl::OkStatus();
        });
      });
      return absl::OkStatus();
    };
    const auto end = [&] {
      worker.join();
      return embedding;
    };
    for (int round = 0; round <= kRounds; ++round) LC_RETURN_IF_ERROR(searches.Round(begin, end));
    searches.Tell(StrCat("a backfill of ", kBackfillRate, " items/s"), 1.2, report_);
    return absl::OkStatus();
  }

  // A training as a job of the server: a process of its own, with its defaults.
  absl::Status MeasureTraining() {
    SearchesBeside searches(gallery_);
    std::string job;
    const auto begin = [&]() -> absl::Status {
      server::StartTrainingCall start;
      start.collection = EngineGallery::kName;
      start.recipe_json = R"({"method": "independent", "data": "glyphs", "options": {"epochs": 1000}})";
      LC_ASSIGN_OR_RETURN(job, gallery_.engine().StartTraining(start));
      return AwaitStep(job);
    };
    const auto end = [&]() -> absl::Status {
      LC_RETURN_IF_ERROR(gallery_.engine().CancelJob(job, "").status());
      while (true) {
        LC_ASSIGN_OR_RETURN(const server::JobStatus status, gallery_.engine().GetJob(job));
        if (status.final()) return status.error;
        absl::SleepFor(absl::Milliseconds(20));
      }
    };
    for (int round = 0; round <= kRounds; ++round) LC_RETURN_IF_ERROR(searches.Round(begin, end));
    searches.Tell("a training", 1.5, report_);
    return absl::OkStatus();
  }

  absl::Status AwaitStep(const std::string& job) const {
    while (true) {
      LC_ASSIGN_OR_RETURN(const server::JobStatus status, gallery_.engine().GetJob(job));
      if (status.final())
        return Internal(StrCat("the training ended before it was measured: ", MessageOf(status.error)));
      if (status.done > 0) return absl::OkStatus();
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  // One worker without a pause. By the clock of the worker, and by the processor time of all, sealing and graphs of the
  // new generation's rows included.
  absl::Status MeasureOverhead() {
    const std::vector<float> vectors = gallery_.VectorsOf(1, 10'000);
    std::vector<double> rates, of_processor;
    for (int round = 0; round <= kRounds; ++round) {
      const int64_t wanted = gallery_.items() / 20;
      int64_t done = 0;
      const absl::Duration processor = ProcessorTimeOfProcess();
      const Clock::time_point start = Clock::now();
      while (done < wanted) {
        LC_ASSIGN_OR_RETURN(const int64_t items, Embed(kWorkerBatch, done, vectors));
        done += items;
      }
      if (round == 0) continue;  // warm-up
      rates.push_back(1000 * static_cast<double>(done) / MillisecondsSince(start));
      of_processor.push_back(static_cast<double>(done) / absl::ToDoubleSeconds(ProcessorTimeOfProcess() - processor));
    }
    AddAtLeast(report_, StrCat("backfill without an encoder, 1 worker, batches of ", kWorkerBatch), rates, "items/s",
               5'000);
    AddAtLeast(report_, "the same by a processor's second, index included", of_processor, "items/s", 5'000);
    return absl::OkStatus();
  }

  const BenchOptions& options_;
  Report& report_;
  EngineGallery gallery_;
  std::string token_;  // of the last lease, which the next one gives back
};

}  // namespace

absl::Status BenchRollout(const BenchOptions& options, Report& report) {
  LC_RETURN_IF_ERROR(Switches(options, report).Run());
  return BackfillBench(options, report).Run();
}

}  // namespace lightcone::bench
