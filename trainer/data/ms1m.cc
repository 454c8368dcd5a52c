#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "trainer/data/paper_sets.h"
#include "trainer/data/parallel.h"
#include "trainer/data/recordio.h"

namespace lightcone {
namespace {

constexpr int kSide = 112;
constexpr float kLabelMax = 16'777'216;  // limit below which every whole number is a float
constexpr int64_t kTestIdentitiesMax = 2500, kTestImagesMin = 4, kTestShareMax = 4;

class RecordSource : public ImageSource {
 public:
  explicit RecordSource(std::unique_ptr<RecordFile> records) : records_(std::move(records)) {}

  int64_t size() const override { return static_cast<int64_t>(records_->entries().size()); }
  absl::StatusOr<std::string> Bytes(int64_t i) const override {
    LC_DCHECK(0 <= i && i < size());
    return records_->ReadImage(static_cast<size_t>(i));
  }
  std::string Name(int64_t i) const override { return records_->Name(static_cast<size_t>(i)); }
  uint32_t Checksum() const override {
    std::call_once(summed_, [this] {
      const std::vector<IndexEntry>& entries = records_->entries();
      const std::string_view index(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(entries[0]));
      checksum_ = SampleChecksum(*this, Crc32c(index, static_cast<uint32_t>(records_->bytes())));
    });
    return checksum_;
  }

 private:
  const std::unique_ptr<RecordFile> records_;
  mutable std::once_flag summed_;
  mutable uint32_t checksum_ = 0;
};

absl::StatusOr<int64_t> WholeLabel(float label, int64_t limit, const std::string& what) {
  if (label >= 0 && label <= static_cast<float>(limit) && label == std::floor(label))
    return static_cast<int64_t>(label);
  return DataLoss(StrCat(what, ": field 'label' is ", label, "; allowed: a whole number, 0 .. ", limit));
}

// The positions of the images among the entries. Record 0 of InsightFace's files holds no image. Its first label ends
// the keys of images, 1 .. label[0] - 1, which identities follow.
absl::StatusOr<std::pair<size_t, size_t>> ImageRange(const RecordFile& records) {
  const std::vector<IndexEntry>& entries = records.entries();
  const size_t count = entries.size();
  if (count == 0 || entries[0].key != 0) return std::pair<size_t, size_t>(0, count);
  LC_ASSIGN_OR_RETURN(const ImageRecordHeader header, records.ReadHeader(0));
  if (!header.listed) return std::pair<size_t, size_t>(0, count);
  LC_ASSIGN_OR_RETURN(const int64_t end, WholeLabel(header.labels[0], int64_t{1} << 31, records.Name(0)));
  if (end < 2) return DataLoss(StrCat(records.Name(0), ": says that there are no images"));
  const auto last = std::lower_bound(entries.begin(), entries.end(), end,
                                     [](const IndexEntry& entry, int64_t key) { return entry.key < key; });
  const int64_t images = std::max<int64_t>(0, static_cast<int64_t>(last - entries.begin()) - 1);
  if (images != end - 1) {
    return DataLoss(StrCat(records.Name(0), ": says that there are ", end - 1, " images; the index has ", images));
  }
  return std::pair<size_t, size_t>(1, static_cast<size_t>(end));
}

absl::StatusOr<std::vector<int64_t>> ReadLabels(const RecordFile& records, size_t begin, size_t end) {
  std::vector<int64_t> labels(end - begin);
  std::vector<absl::Status> results(labels.size());
  ParallelFor(static_cast<int64_t>(labels.size()), [&](int64_t i) {
    const size_t record = begin + static_cast<size_t>(i);
    const absl::StatusOr<ImageRecordHeader> header = records.ReadHeader(record);
    if (!header.ok()) {
      results[i] = header.status();
      return;
    }
    const absl::StatusOr<int64_t> label =
        WholeLabel(header->labels[0], static_cast<int64_t>(kLabelMax), records.Name(record));
    results[i] = label.status();
    labels[i] = label.value_or(0);
  });
  for (const absl::Status& result : results) LC_RETURN_IF_ERROR(result);
  return labels;
}

// Divides into training and test images (paper_sets.h).
void Divide(const std::vector<int64_t>& labels, int64_t first_row, ListedDataset* listed) {
  std::map<int64_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(first_row + static_cast<int64_t>(i));
  int64_t candidates = 0, ordinal = 0;
  for (const auto& [label, rows] : members) candidates += static_cast<int64_t>(rows.size()) >= kTestImagesMin;
  const int64_t stride = std::max<int64_t>(1, (candidates + kTestIdentitiesMax - 1) / kTestIdentitiesMax);
  listed->test.emplace();
  for (const auto& [label, rows] : members) {
    const int64_t n = static_cast<int64_t>(rows.size());
    int64_t tested = 0;
    if (n >= kTestImagesMin && ordinal++ % stride == 0) tested = std::clamp<int64_t>(n / 4, 2, kTestShareMax);
    for (int64_t i = 0; i < n; ++i) {
      (i < n - tested ? listed->train : *listed->test).Add(rows[static_cast<size_t>(i)], label);
    }
  }
}

}  // namespace

absl::StatusOr<ListedDataset> OpenMs1m(const std::string& folder) {
  LC_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> records,
                      RecordFile::Open(folder + "/train.rec", folder + "/train.idx"));
  using Range = std::pair<size_t, size_t>;
  LC_ASSIGN_OR_RETURN(const Range range, ImageRange(*records));
  LC_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(*records, range.first, range.second));
  ListedDataset listed;
  listed.height = listed.width = kSide;
  listed.single_images = true;  // identities with one image are trained on
  Divide(labels, static_cast<int64_t>(range.first), &listed);
  listed.notes = StrCat(listed.test->rows.size(), " images set aside to test");
  listed.source = std::make_shared<RecordSource>(std::move(records));
  return listed;
}

}  // namespace lightcone
