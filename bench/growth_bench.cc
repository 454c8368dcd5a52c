// How the time of a search, an upsert, an activation and a restart, and the bytes, grow with the gallery: three sizes,
// a factor of ten apart, and the exponent of the power law that fits them.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/engine_gallery.h"

namespace lightcone::bench {
namespace {

constexpr int kRounds = 5;
constexpr int kQueries = EngineGallery::kQueries;
constexpr int64_t kBatch = 100;
constexpr int kBatches = 40;
constexpr int kActivations = 20;

struct Times {
  double search_us = 0, upsert_us = 0, activation_us = 0, restart_ms = 0, index_bytes = 0;
};

// The median over `rounds` of the microseconds of one of `n` calls.
absl::StatusOr<double> MicrosecondsOf(int rounds, int n, const std::function<absl::Status(int round, int i)>& call) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) LC_RETURN_IF_ERROR(call(round, i));
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / n);
  }
  return Median(times);
}

absl::StatusOr<Times> Measure(const BenchOptions& options, int64_t items) {
  EngineGallery gallery(StrCat(options.folder, "/growth-", items), options.dimension, items);
  LC_RETURN_IF_ERROR(gallery.Fill());
  const auto search = [&](int, int i) { return gallery.Search(static_cast<size_t>(i)).status(); };
  LC_RETURN_IF_ERROR(MicrosecondsOf(1, kQueries, search).status());  // warm-up
  Times times;
  LC_ASSIGN_OR_RETURN(times.search_us, MicrosecondsOf(kRounds, kQueries, search));
  int64_t next = items;
  LC_ASSIGN_OR_RETURN(times.upsert_us, MicrosecondsOf(kRounds, kBatches, [&](int, int) {
                        next += kBatch;
                        return gallery.Upsert(next - kBatch, kBatch, Durability::kDurable);
                      }));
  LC_ASSIGN_OR_RETURN(times.activation_us, MicrosecondsOf(kRounds, kActivations, [&](int, int i) {
                        return gallery.Activate(i % 2 == 0 ? 2 : 1);
                      }));
  LC_ASSIGN_OR_RETURN(const double restart_us, MicrosecondsOf(kRounds, 1, [&](int, int) {
                        LC_RETURN_IF_ERROR(gallery.Reopen());
                        return gallery.Search(0).status();
                      }));
  times.restart_ms = restart_us / 1000;
  LC_ASSIGN_OR_RETURN(const server::CollectionStatus status, gallery.engine().GetCollection(EngineGallery::kName));
  times.index_bytes = static_cast<double>(status.mapped_bytes);
  gallery.Close();
  std::error_code ignored;
  std::filesystem::remove_all(gallery.folder(), ignored);
  return times;
}

// The slope of log(value) over log(size), by least squares.
double Exponent(const std::vector<double>& sizes, const std::vector<double>& values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double u = std::log(sizes[i]), v = std::log(values[i]);
    x += u;
    y += v;
    xx += u * u;
    xy += u * v;
  }
  const double n = static_cast<double>(sizes.size());
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace

absl::Status BenchGrowth(const BenchOptions& options, Report& report) {
  std::vector<double> sizes;
  std::vector<Times> times;
  for (const int64_t part : {100, 10, 1}) {
    const int64_t items = std::max<int64_t>(options.life_items / part, 100);
    LC_ASSIGN_OR_RETURN(const Times measured, Measure(options, items));
    sizes.push_back(static_cast<double>(items));
    times.push_back(measured);
  }
  const auto add = [&](const std::string& what, double Times::*value, const std::string& unit, double exponent_max) {
    std::vector<double> values;
    std::string list;
    for (const Times& one : times) {
      values.push_back(one.*value);
      char text[32];
      std::snprintf(text, sizeof(text), "%.4g", one.*value);
      list += StrCat(list.empty() ? "" : ", ", std::string(text));
    }
    Figure figure;
    figure.name =
        StrCat("growth of ", what, ": ", list, " ", unit, " at ", static_cast<int64_t>(sizes[0]), " x 1, 10, 100");
    figure.value = Exponent(sizes, values);
    figure.unit = "exponent";
    if (exponent_max > 0) {
      figure.peer = "the limit";
      figure.peer_value = exponent_max;
      figure.ratio = figure.value / exponent_max;
      figure.goal = StrCat("value <= ", exponent_max);
      figure.met = figure.value <= exponent_max;
    }
    report.Add(std::move(figure));
  };
  add("a search, top 10, HNSW", &Times::search_us, "us", 0.25);
  add("a durable upsert of 100", &Times::upsert_us, "us", 0.05);
  add("an activation", &Times::activation_us, "us", 0.05);
  add("a restart to the first answer", &Times::restart_ms, "ms", 0);
  add("the index's files", &Times::index_bytes, "bytes", 0);
  return absl::OkStatus();
}

}  // namespace lightcone::bench
