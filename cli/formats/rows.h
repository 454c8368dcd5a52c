// Files of embeddings: one interface over npy, fvecs, bvecs and jsonl. Nothing here knows a server.
// Threads: a reader or writer belongs to one thread at a time. Files are never trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lightcone/v1/types.pb.h"

namespace lightcone::cli {

enum class RowFormat { kNpy, kFvecs, kBvecs, kJsonl };

std::string_view RowFormatName(RowFormat format);
// By name ("npy", "fvecs", "bvecs", "jsonl"), or by the extension of `path`: for "auto", and for none where no format
// can be named. INVALID_ARGUMENT lists them.
absl::StatusOr<RowFormat> RowFormatOf(std::string_view name, std::string_view path);

struct Row {
  std::vector<float> vector;
  std::optional<std::string> image;         // bytes of a file of OpenImages, in place of a vector
  std::optional<std::string> text;          // text for the server to embed, in place of a vector
  std::optional<v1::ItemId> id;             // npy, fvecs, bvecs: none
  std::optional<std::string> payload_json;  // none: the row says nothing about a payload
  uint32_t generation = 0;                  // generation that embedded the vector; 0: not given
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // The next row into `row`; false at the end. Errors name file and row, counted from 0 (text files: the line, from 1):
  // DATA_LOSS (truncated or corrupt), INVALID_ARGUMENT (a value that no collection takes: NaN, wrong type). After
  // INVALID_ARGUMENT the next call reads the row behind.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
  // The last row as it stands in the file, where it is a line of text.
  virtual std::string_view text() const { return {}; }
  // Rows in the whole file; -1 when only reading tells (jsonl).
  virtual int64_t rows() const = 0;
  // How far reading has come, for a progress bar: bytes read and bytes in all.
  virtual int64_t bytes_read() const = 0;
  virtual int64_t bytes() const = 0;
};

struct ReadOptions {
  // Top-level fields of a jsonl line that make up the payload, when the line has no "payload".
  std::vector<std::string> payload_fields;
  // Whether a jsonl line may have only the fields that a row is made of, unless payload_fields chooses among them.
  bool refuse_unknown = false;
  // Top-level field of a jsonl line with a text for the server to embed, in place of "vector". Empty: none.
  std::string text_field = {};
};

// Opens `path`. NOT_FOUND, DATA_LOSS or INVALID_ARGUMENT as above. An npy file holds float16/32/64 or integers of shape
// (rows, dimension).
absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(const std::string& path, RowFormat format,
                                                    const ReadOptions& options = {});

// The image files (.png, .jpg, .jpeg, .webp, in any case) of a folder and those in it, in the order of their names. A
// row's id is its path below the folder; the payload is {"file": that, "class": the folders on its way}.
// INVALID_ARGUMENT for a folder without any.
absl::StatusOr<std::unique_ptr<RowReader>> OpenImages(const std::string& folder);

// Ids (and payloads) for the rows of another file: an npy file of integers, or a text file with a JSON value a line: an
// id, or an object with "id" and perhaps "generation" and "payload". A line that is no JSON is an id as people type it.
// A .json file may be what `generation adapter sample --json` prints: the ids of its "items".
class IdReader {
 public:
  virtual ~IdReader() = default;
  // Sets row->id, and row->generation and row->payload_json where the file has these. False at the end.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
};
absl::StatusOr<std::unique_ptr<IdReader>> OpenIds(const std::string& path, const ReadOptions& options = {});

class RowWriter {
 public:
  virtual ~RowWriter() = default;
  // INVALID_ARGUMENT names the row: another dimension than the rows before it (not jsonl), a value that the format
  // cannot hold (bvecs: integers 0 .. 255). RESOURCE_EXHAUSTED: the disk is full.
  virtual absl::Status Write(const Row& row) = 0;
  // Completes the file and makes it durable under its name. Before that, and when the writer is dropped without it,
  // nothing stands under the final name.
  virtual absl::Status Finish() = 0;
};

// Creates `path`; npy, fvecs and bvecs get their ids and payloads in IdsPath(path) beside them.
absl::StatusOr<std::unique_ptr<RowWriter>> CreateRows(const std::string& path, RowFormat format);
std::string IdsPath(const std::string& path);

}  // namespace lightcone::cli
