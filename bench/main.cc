// lightcone_bench [--json FILE] [--only SUBJECT] [--publish DIR]: ours beside the raw part.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>

#include "base/files.h"
#include "base/programs.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/published.h"

namespace {

using namespace lightcone;  // NOLINT(google-build-using-namespace): a program has no namespace of its own
using Subject = absl::Status (*)(const bench::BenchOptions&, bench::Report&);
constexpr std::pair<const char*, Subject> kSubjects[] = {
    {"geometry", bench::BenchGeometry}, {"scan", bench::BenchScan},         {"graph", bench::BenchGraph},
    {"ivf", bench::BenchIvf},           {"adapters", bench::BenchAdapters}, {"adapted", bench::BenchAdapted},
    {"mixed", bench::BenchMixed},       {"upsert", bench::BenchUpsert},     {"ingest", bench::BenchIngest},
    {"rebuild", bench::BenchRebuild},   {"search", bench::BenchSearch},     {"rest", bench::BenchRest},
    {"python", bench::BenchPython},     {"endpoint", bench::BenchEndpoint}, {"keys", bench::BenchKeys},
    {"traces", bench::BenchTraces},     {"tls", bench::BenchTls},           {"snapshots", bench::BenchSnapshots},
    {"overload", bench::BenchOverload}, {"filters", bench::BenchFilters},   {"memory", bench::BenchMemory},
    {"programs", bench::BenchPrograms}, {"start", bench::BenchStart},       {"growth", bench::BenchGrowth},
    {"rollout", bench::BenchRollout},   {"training", bench::BenchTraining}, {"gpu", bench::BenchGpu}};

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, subject] : kSubjects) names.emplace_back(name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as the server does
  CLI::App app("Lightcone's benchmarks");
  std::string json = "build/bench/results.json", only, publish;
  bench::BenchOptions options;
  options.folder = "build/bench/data";
  app.add_option("--json", json, "where the figures go");
  app.add_option("--publish", publish,
                 "folder whose results.json and README.md get the figures measured, docs/benchmarks");
  app.add_option("--only", only, "one subject")->check(CLI::IsMember(Names()));
  app.add_option("--folder", options.folder, "scratch space");
  app.add_option("--items", options.items,
                 "gallery size of the search, graph, ivf and adapted benchmarks, and to backfill");
  app.add_option("--scan-items", options.scan_items,
                 "gallery size of the scan and mixed benchmarks, rows to be carried over");
  app.add_option("--life-items", options.life_items,
                 "gallery size of the start and growth benchmarks, and to activate over");
  app.add_option("--gpu-items", options.gpu_items,
                 "gallery size of the gpu benchmark, which takes 600 bytes each of the host's memory");
  app.add_option("--images", options.images,
                 "data set (KIND:DIR) whose images' SIFT descriptors the graph benchmark searches")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.server_binary = ProgramBeside("lightcone");

  std::printf("%s", bench::MachineText().c_str());
  bench::Report report;
  int failures = 0;
  for (const auto& [name, subject] : kSubjects) {
    if (!only.empty() && only != name) continue;
    std::fprintf(stderr, "measuring %s ...\n", name);
    std::error_code ignored;
    std::filesystem::remove_all(options.folder, ignored);
    absl::Status status = MakeFolders(options.folder);
    if (status.ok()) status = subject(options, report);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name, MessageOf(status).c_str());
      ++failures;
    }
  }
  std::printf("%s", report.Table().c_str());
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(json).parent_path(), ignored);
  absl::Status written = WriteFileAtomically(json, report.Json());
  if (written.ok() && !publish.empty()) written = bench::Publish(publish, report.figures(), bench::MachineName());
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", MessageOf(written).c_str());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
