#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/npy.h"
#include "base/status.h"
#include "cli/formats/binary_file.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "cli/formats/rows.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// {"id": .., "generation": .., "payload": {..}}; the payload's text is put in as it is, but for line breaks.
std::string IdLine(const Row& row, std::string_view vector_json) {
  const std::string id = row.id.has_value() ? ItemIdJson(*row.id).dump() : "null";
  const std::string generation = row.generation > 0 ? StrCat(",\"generation\":", row.generation) : std::string();
  std::string payload = row.payload_json.value_or("").empty() ? "{}" : *row.payload_json;
  if (payload.starts_with(kByteOrderMark)) payload.erase(0, kByteOrderMark.size());  // of an older server
  // JSON has them between its values only (in a text they are escaped), where a space says the same.
  std::replace_if(
      payload.begin(), payload.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::string line = StrCat("{\"id\":", id, generation, ",\"payload\":", payload);
  if (!vector_json.empty()) line += StrCat(",\"vector\":", vector_json);
  return line + "}\n";
}

class JsonlWriter : public RowWriter {
 public:
  explicit JsonlWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  // JSON's numbers are doubles written so that they read back the same: every float32 survives.
  absl::Status Write(const Row& row) override { return file_->Write(IdLine(row, OrderedJson(row.vector).dump())); }
  absl::Status Finish() override { return file_->Commit(); }

 private:
  const std::unique_ptr<OutputFile> file_;
};

// npy, fvecs and bvecs: rows of one dimension in one file, ids and payloads in another.
class MatrixWriter : public RowWriter {
 public:
  MatrixWriter(RowFormat format, std::unique_ptr<OutputFile> file, std::unique_ptr<OutputFile> ids)
      : format_(format), file_(std::move(file)), ids_(std::move(ids)) {}

  absl::Status Start() {
    if (format_ != RowFormat::kNpy) return absl::OkStatus();
    header_bytes_ = Header().size();
    return file_->Write(std::string(header_bytes_, ' '));
  }

  absl::Status Write(const Row& row) override {
    const int64_t dimension = static_cast<int64_t>(row.vector.size());
    if (rows_ == 0) dimension_ = dimension;
    if (dimension != dimension_) {
      return InvalidField(StrCat("row ", rows_, " dimension"), StrCat(dimension),
                          StrCat(dimension_, ", that of the rows before it in a ", RowFormatName(format_),
                                 " file; jsonl takes any, and --filter '$generation = N' exports one generation"));
    }
    if (format_ != RowFormat::kNpy) {
      const int32_t prefix = static_cast<int32_t>(dimension);
      LC_RETURN_IF_ERROR(file_->Write({reinterpret_cast<const char*>(&prefix), sizeof prefix}));
    }
    if (format_ == RowFormat::kBvecs) {
      LC_RETURN_IF_ERROR(WriteBytes(row.vector));
    } else {
      LC_RETURN_IF_ERROR(
          file_->Write({reinterpret_cast<const char*>(row.vector.data()), row.vector.size() * sizeof(float)}));
    }
    ++rows_;
    return ids_->Write(IdLine(row, ""));
  }

  absl::Status Finish() override {
    if (format_ == RowFormat::kNpy) {
      const std::string header = Header();
      if (header.size() != header_bytes_) return Internal("the npy header outgrew its place");
      LC_RETURN_IF_ERROR(file_->Overwrite(header));
    }
    // The ids first: a file of vectors never stands without them.
    LC_RETURN_IF_ERROR(ids_->Commit());
    return file_->Commit();
  }

 private:
  std::string Header() const { return NpyHeaderBytes(NpyType::kFloat32, {rows_, dimension_}); }

  absl::Status WriteBytes(const std::vector<float>& vector) {
    std::string bytes(vector.size(), '\0');
    for (size_t i = 0; i < vector.size(); ++i) {
      if (!(vector[i] >= 0 && vector[i] <= 255) || vector[i] != std::floor(vector[i])) {
        return InvalidField(StrCat("row ", rows_, " vector[", i, "]"), StrCat(vector[i]),
                            "integers 0 .. 255 in a bvecs file; fvecs and npy take any number");
      }
      bytes[i] = static_cast<char>(static_cast<uint8_t>(vector[i]));
    }
    return file_->Write(bytes);
  }

  const RowFormat format_;
  const std::unique_ptr<OutputFile> file_, ids_;
  size_t header_bytes_ = 0;
  int64_t rows_ = 0, dimension_ = 0;
};

}  // namespace

std::string IdsPath(const std::string& path) {
  const size_t dot = path.rfind('.');
  const bool has_extension = dot != std::string::npos && path.find('/', dot) == std::string::npos;
  return StrCat(has_extension ? path.substr(0, dot) : path, ".ids.jsonl");
}

absl::StatusOr<std::unique_ptr<RowWriter>> CreateRows(const std::string& path, RowFormat format) {
  static_assert(std::endian::native == std::endian::little, "vectors are written as they lie in memory");
  LC_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  if (format == RowFormat::kJsonl) return std::unique_ptr<RowWriter>(std::make_unique<JsonlWriter>(std::move(file)));
  LC_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> ids, OutputFile::Create(IdsPath(path)));
  auto writer = std::make_unique<MatrixWriter>(format, std::move(file), std::move(ids));
  LC_RETURN_IF_ERROR(writer->Start());
  return std::unique_ptr<RowWriter>(std::move(writer));
}

}  // namespace lightcone::cli
