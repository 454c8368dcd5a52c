// Rows of a two-dimensional npy file, read in blocks: the file may be larger than memory.
#include <algorithm>
#include <utility>

#include "base/npy.h"
#include "base/status.h"
#include "cli/formats/readers.h"

namespace lightcone::cli {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;

class NpyReader : public RowReader {
 public:
  NpyReader(std::unique_ptr<InputFile> file, NpyHeader header)
      : file_(std::move(file)), header_(std::move(header)), dimension_(header_.shape[1]) {}

  absl::StatusOr<bool> Next(Row* row) override {
    if (row_ == rows()) return false;
    if (row_ >= block_end_) LC_RETURN_IF_ERROR(ReadBlock());
    *row = Row();
    const auto begin = values_.begin() + (row_ - block_begin_) * dimension_;
    row->vector.assign(begin, begin + dimension_);
    const int64_t number = row_++;
    const absl::Status finite = CheckFinite(row->vector);
    if (!finite.ok()) return Annotate(finite, StrCat("'", file_->path(), "' row ", number));
    return true;
  }

  int64_t rows() const override { return header_.shape[0]; }
  int64_t bytes_read() const override { return file_->bytes_read(); }
  int64_t bytes() const override { return file_->bytes(); }

 private:
  absl::Status ReadBlock() {
    const int64_t width = NpyTypeBytes(header_.type);
    const int64_t rows_of_block =
        std::min(rows() - row_, std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, dimension_ * width)));
    NpyArray block = {.type = header_.type, .shape = {rows_of_block, dimension_}, .data = {}};
    block.data.resize(static_cast<size_t>(rows_of_block * dimension_ * width));
    LC_ASSIGN_OR_RETURN(const size_t got, file_->Read(block.data.data(), block.data.size()));
    if (got != block.data.size()) return DataLoss(StrCat("'", file_->path(), "' is truncated in row ", row_));
    if (header_.big_endian) {
      for (size_t i = 0; i < block.data.size(); i += width) {
        std::reverse(block.data.begin() + i, block.data.begin() + i + width);
      }
    }
    if (NpyIsInteger(header_.type)) {
      LC_ASSIGN_OR_RETURN(const std::vector<int64_t> integers, NpyIntegers(block, file_->path()));
      values_.assign(integers.begin(), integers.end());
    } else {
      LC_ASSIGN_OR_RETURN(values_, NpyFloats(block, file_->path()));
    }
    block_begin_ = row_;
    block_end_ = row_ + rows_of_block;
    return absl::OkStatus();
  }

  const std::unique_ptr<InputFile> file_;
  const NpyHeader header_;
  const int64_t dimension_;
  std::vector<float> values_;  // values of rows block_begin_ .. block_end_ - 1
  int64_t row_ = 0, block_begin_ = 0, block_end_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> OpenNpyRows(std::unique_ptr<InputFile> file) {
  // A header is a few hundred bytes; one larger than this is none of ours.
  std::string start(1 << 16, '\0');
  const std::string path = file->path();
  LC_ASSIGN_OR_RETURN(const size_t got, file->Read(start.data(), start.size()));
  start.resize(got);
  LC_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(start, path));
  if (header.shape.size() != 2 || (header.shape[1] < 1 && header.shape[0] > 0) || header.type == NpyType::kBool) {
    return InvalidField(StrCat("'", path, "'"),
                        StrCat(NpyTypeName(header.type), " of shape ", NpyShapeText(header.shape)),
                        "floats or integers of shape (rows, dimension)");
  }
  const int64_t bytes = header.data_offset + header.elements * NpyTypeBytes(header.type);
  if (bytes != file->bytes()) {
    return DataLoss(
        StrCat("'", path, "' is truncated or corrupt: it has ", file->bytes(), " bytes, its header asks for ", bytes));
  }
  // Start again, behind the header.
  LC_ASSIGN_OR_RETURN(file, InputFile::Open(path));
  start.resize(static_cast<size_t>(header.data_offset));
  LC_ASSIGN_OR_RETURN(const size_t skipped, file->Read(start.data(), start.size()));
  if (skipped != start.size()) return DataLoss(StrCat("'", path, "' is truncated"));
  return std::unique_ptr<RowReader>(std::make_unique<NpyReader>(std::move(file), std::move(header)));
}

}  // namespace lightcone::cli
