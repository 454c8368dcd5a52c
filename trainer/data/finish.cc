#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/dcheck.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/image.h"
#include "trainer/data/parallel.h"
#include "trainer/data/raw.h"

namespace lightcone {
namespace {

constexpr int kSideMin = 16;

void Resize(int height, int width, RawImages* images) {
  const int64_t from = int64_t{images->height} * images->width * images->channels;
  const int64_t to = int64_t{height} * width * images->channels;
  const int64_t n = static_cast<int64_t>(images->labels.size());
  std::vector<uint8_t> pixels(static_cast<size_t>(n * to));
  ParallelFor(n, [&](int64_t i) {
    const uint8_t* begin = images->pixels.data() + i * from;
    const Image image{images->height, images->width, images->channels, {begin, begin + from}};
    const Image small = ResizeImage(image, height, width, images->channels);
    std::memcpy(pixels.data() + i * to, small.pixels.data(), static_cast<size_t>(to));
  });
  images->height = height;
  images->width = width;
  images->pixels = std::move(pixels);
}

ImageSet Take(const RawImages& raw, const std::vector<int64_t>& rows, const std::map<int64_t, int32_t>& ids) {
  ImageSet set{raw.height, raw.width, raw.channels, {}, {}};
  const int64_t bytes = set.bytes_per_image();
  set.pixels.resize(rows.size() * static_cast<size_t>(bytes));
  set.labels.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(set.pixels.data() + static_cast<int64_t>(i) * bytes, raw.pixels.data() + rows[i] * bytes,
                static_cast<size_t>(bytes));
    set.labels.push_back(ids.at(raw.labels[rows[i]]));
  }
  return set;
}

// Number of test images of a class of n. REQUIRES: n >= 2.
int64_t TestShare(int64_t n) {
  LC_DCHECK(n >= 2);
  const int64_t least = n >= 4 ? 2 : 1;  // two test items of a class find each other
  return std::max(least, (n + 2) / 4);
}

std::vector<int64_t> AllRows(size_t n) {
  std::vector<int64_t> rows(n);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

absl::Status CheckRaw(const RawDataset& raw) {
  if (raw.train.labels.empty()) return InvalidField("training images", "0", "at least 2 of each class");
  if (!raw.test.has_value()) return absl::OkStatus();
  if (raw.test->labels.empty()) return InvalidField("test items", "0", "at least 1");
  const auto text = [](const RawImages& r) { return StrCat(r.height, " x ", r.width, " x ", r.channels); };
  if (text(raw.train) == text(*raw.test)) return absl::OkStatus();
  return InvalidField("size of the test images", text(*raw.test), StrCat(text(raw.train), ", as the training images"));
}

}  // namespace

void FitImageSize(int side_max, int side, RawDataset* raw) {
  const int height = raw->train.height, width = raw->train.width, longer = std::max(height, width);
  if (longer <= 0 || (longer <= side_max && longer >= kSideMin)) return;
  double factor = static_cast<double>(side) / longer;
  if (longer < kSideMin) factor = (kSideMin + longer - 1) / longer;
  const int to_height = std::max(1, static_cast<int>(std::lround(height * factor)));
  const int to_width = std::max(1, static_cast<int>(std::lround(width * factor)));
  if (raw->test.has_value() && raw->test->height == height && raw->test->width == width) {
    Resize(to_height, to_width, &*raw->test);
  }
  Resize(to_height, to_width, &raw->train);
  AddNote(StrCat("images resized from ", height, " x ", width, " to ", to_height, " x ", to_width), &raw->notes);
}

void AddNote(std::string_view note, std::string* notes) { *notes += StrCat(notes->empty() ? "" : "; ", note); }

Normalisation MeasureNormalisation(const ImageSet& images) {
  LC_DCHECK(images.in_memory());
  const int channels = images.channels;
  std::vector<uint64_t> sum(channels, 0), squares(channels, 0);  // exact sums do not depend on their order
  const size_t n = images.pixels.size() / std::max(1, channels);
  for (size_t i = 0; i < n; ++i) {
    for (int c = 0; c < channels; ++c) {
      const uint64_t v = images.pixels[i * channels + c];
      sum[c] += v;
      squares[c] += v * v;
    }
  }
  Normalisation out;
  for (int c = 0; c < channels; ++c) {
    const double mean = n ? static_cast<double>(sum[c]) / n : 0.0;
    const double variance = n ? std::max(0.0, static_cast<double>(squares[c]) / n - mean * mean) : 0.0;
    out.mean.push_back(static_cast<float>(mean / 255));
    out.stddev.push_back(variance > 1e-6 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f);
  }
  return out;
}

ClassNumbers NumberClasses(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                           const std::map<int64_t, std::string>& names) {
  ClassNumbers numbers;
  const auto add = [&](const std::vector<int64_t>& labels) {
    for (const int64_t label : std::set<int64_t>(labels.begin(), labels.end())) {
      if (!numbers.ids.emplace(label, static_cast<int32_t>(numbers.ids.size())).second) continue;
      const auto named = names.find(label);
      numbers.names.push_back(named == names.end() ? StrCat(label) : named->second);
    }
  };
  add(train);
  add(test);
  return numbers;
}

absl::Status CheckNoSingleImage(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                                const ClassNumbers& numbers) {
  std::map<int64_t, int64_t> total;
  for (const std::vector<int64_t>* labels : {&train, &test}) {
    for (const int64_t label : *labels) ++total[label];
  }
  for (const auto& [label, count] : total) {
    if (count >= 2) continue;
    return InvalidField(StrCat("images of class '", numbers.names[numbers.ids.at(label)], "'"), "1",
                        "at least 2 (one to train, one to test)");
  }
  return absl::OkStatus();
}

SplitRows SplitPerClass(const std::vector<int64_t>& labels, uint64_t seed) {
  std::map<int64_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(static_cast<int64_t>(i));
  SplitRows rows;
  uint64_t ordinal = 0;
  for (auto& [label, order] : members) {
    Rng rng(MixSeed({seed, 0x5b1175ee, ordinal++}));
    rng.Shuffle(&order);
    const auto cut = order.begin() + TestShare(static_cast<int64_t>(order.size()));
    rows.test.insert(rows.test.end(), order.begin(), cut);
    rows.train.insert(rows.train.end(), cut, order.end());
  }
  std::sort(rows.train.begin(), rows.train.end());
  std::sort(rows.test.begin(), rows.test.end());
  return rows;
}

absl::StatusOr<Dataset> FinishDataset(std::string_view name, RawDataset raw, uint64_t seed) {
  LC_RETURN_IF_ERROR(CheckRaw(raw));
  const std::vector<int64_t> none;
  const std::vector<int64_t>& test_labels = raw.test ? raw.test->labels : none;
  const ClassNumbers numbers = NumberClasses(raw.train.labels, test_labels, raw.class_names);
  LC_RETURN_IF_ERROR(CheckNoSingleImage(raw.train.labels, test_labels, numbers));
  Dataset out;
  out.name = std::string(name);
  out.notes = std::move(raw.notes);
  out.class_names = numbers.names;
  if (raw.test) {
    out.train = Take(raw.train, AllRows(raw.train.labels.size()), numbers.ids);
    out.test = Take(*raw.test, AllRows(raw.test->labels.size()), numbers.ids);
  } else {
    const SplitRows rows = SplitPerClass(raw.train.labels, seed);
    out.train = Take(raw.train, rows.train, numbers.ids);
    out.test = Take(raw.train, rows.test, numbers.ids);
    AddNote("no test files: a quarter of each class was set aside", &out.notes);
  }
  out.normalisation = MeasureNormalisation(out.train);
  out.augment = out.train.channels == 1 ? AugmentKind::kDrawing : AugmentKind::kPhoto;
  return out;
}

}  // namespace lightcone
