#include "trainer/progress_file.h"

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/files.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainer/progress.h"

namespace lightcone {
namespace {

constexpr auto kWriteEvery = std::chrono::milliseconds(200);
constexpr size_t kPointsMax = 400;
constexpr int64_t kBytesMax = 4 << 20;

}  // namespace

ProgressFile::ProgressFile(std::string path) : path_(std::move(path)) {
  const auto text = ReadFile(path_, kBytesMax);
  if (!text.ok()) return;
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("curve") || !json["curve"].is_array()) return;
  for (const auto& point : json["curve"]) {
    if (!point.is_object() || !point.contains("epoch") || !point["epoch"].is_number_integer()) return;
    Losses losses;
    for (const auto& [name, value] : point.items()) {
      if (name != "epoch" && value.is_number()) losses.emplace_back(name, value.get<double>());
    }
    curve_.emplace_back(point["epoch"].get<int64_t>(), std::move(losses));
  }
}

void ProgressFile::Show(const TrainProgress& progress) {
  // A resumed epoch is told again.
  while (!curve_.empty() && curve_.back().first > progress.epoch) curve_.pop_back();
  if (curve_.empty() || curve_.back().first != progress.epoch) curve_.emplace_back(progress.epoch, Losses());
  if (!progress.losses.empty()) curve_.back().second = progress.losses;
  const auto now = std::chrono::steady_clock::now();
  if (!progress.finished && now - last_ < kWriteEvery) return;
  if (curve_.size() > kPointsMax) {
    size_t kept = 0;  // number of kept points: odd places and the last
    for (size_t i = 0; i < curve_.size(); ++i) {
      if (i % 2 == 1 || i + 1 == curve_.size()) std::swap(curve_[kept++], curve_[i]);
    }
    curve_.resize(kept);
  }
  last_ = now;
  Write(progress);
}

void ProgressFile::Write(const TrainProgress& progress) {
  nlohmann::ordered_json json = {{"name", progress.name},
                                 {"method", progress.method},
                                 {"epoch", progress.epoch},
                                 {"epochs", progress.epochs},
                                 {"step", progress.step},
                                 {"steps", progress.steps},
                                 {"losses", nlohmann::ordered_json::object()},
                                 {"images_per_second", progress.images_per_second},
                                 {"elapsed_seconds", progress.elapsed_seconds},
                                 {"eta_seconds", progress.eta_seconds},
                                 {"line", FormatProgress(progress, 0)},
                                 {"curve", nlohmann::ordered_json::array()}};
  for (const auto& [name, value] : progress.losses) json["losses"][name] = value;
  for (const auto& [epoch, losses] : curve_) {
    nlohmann::ordered_json point = {{"epoch", epoch}};
    for (const auto& [name, value] : losses) point[name] = value;
    json["curve"].push_back(std::move(point));
  }
  // Renamed and not synced: who reads it lives now.
  const std::string temporary = path_ + ".part";
  std::ofstream file(temporary, std::ios::trunc);
  file << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  file.close();
  status_ = absl::OkStatus();
  if (!file.good() || std::rename(temporary.c_str(), path_.c_str()) != 0) status_ = ErrnoStatus(errno, "write", path_);
}

}  // namespace lightcone
