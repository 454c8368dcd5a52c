// MXNet's RecordIO with image records, as InsightFace packs face sets: train.rec with train.idx.
//   record   uint32 magic 0xced7230a; uint32: 3 bits part, 29 bits length; data; padding to a multiple of 4.
//            part 0: whole; 1, 2, 3: first, middle, last piece of data that held the magic, which stood between pieces.
//   data     IRHeader: uint32 flag, float label, uint64 id, uint64 id2; `flag` > 0: `flag` float labels follow, in
//            place of `label`; then the encoded image. All little-endian.
//   index    lines of "key <tab> offset".
// Sources: dmlc-core recordio.h, mxnet image_recordio.h. DATA_LOSS for everything that does not fit. Threads: safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

// Reads exactly `bytes` bytes at `offset`, which lie within the file.
using ReadAt = std::function<absl::Status(int64_t offset, int64_t bytes, char* out)>;

// The data of the record at `offset` of a file of `file_bytes` bytes, or its first `bytes_max` bytes.
absl::StatusOr<std::string> ReadRecord(const ReadAt& read, int64_t file_bytes, int64_t offset, int64_t bytes_max,
                                       std::string_view what);

struct ImageRecordHeader {
  std::vector<float> labels;  // labels, at least one
  bool listed = false;        // whether the labels came from a list (flag > 0)
  size_t bytes = 0;           // position of the image
};
absl::StatusOr<ImageRecordHeader> ParseImageRecordHeader(std::string_view record, std::string_view what);

struct IndexEntry {
  int64_t key = 0, offset = 0;
};
// In ascending order of the keys. `what` is the path of the index.
absl::StatusOr<std::vector<IndexEntry>> ParseRecordIndex(std::string_view text, std::string_view what);

// An open pair of files. Threads: const methods are safe.
class RecordFile {
 public:
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(const std::string& rec_path, const std::string& idx_path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::vector<IndexEntry>& entries() const { return entries_; }
  int64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // "PATH, record KEY", for messages. `i`: position in entries().
  std::string Name(size_t i) const;
  absl::StatusOr<ImageRecordHeader> ReadHeader(size_t i) const;
  absl::StatusOr<std::string> ReadImage(size_t i) const;

 private:
  RecordFile(std::string path, int file, int64_t bytes) : path_(std::move(path)), file_(file), bytes_(bytes) {}
  absl::StatusOr<std::string> Read(size_t i, int64_t bytes_max) const;

  const std::string path_;
  const int file_;
  const int64_t bytes_;
  std::vector<IndexEntry> entries_;
};

}  // namespace lightcone
