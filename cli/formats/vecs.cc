// fvecs and bvecs: for each row the dimension as a little-endian int32, then that many float32 or uint8.
#include <bit>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "cli/formats/readers.h"

namespace lightcone::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "vecs files are read as they lie in memory");

constexpr int32_t kDimensionMax = 65536;

class VecsReader : public RowReader {
 public:
  VecsReader(std::unique_ptr<InputFile> file, int element_bytes)
      : file_(std::move(file)), element_bytes_(element_bytes) {}

  absl::Status Start() {
    LC_ASSIGN_OR_RETURN(const bool more, ReadDimension());
    if (!more) return absl::OkStatus();
    const int64_t stride = 4 + int64_t{dimension_} * element_bytes_;
    if (file_->bytes() % stride != 0) {
      return DataLoss(StrCat("'", file_->path(), "' is truncated or corrupt: ", file_->bytes(),
                             " bytes are no whole number of rows of ", stride, " bytes (dimension ", dimension_, ")"));
    }
    rows_ = file_->bytes() / stride;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(Row* row) override {
    if (row_ == rows_) return false;
    if (row_ > 0) {
      const int32_t expected = dimension_;
      LC_ASSIGN_OR_RETURN(const bool more, ReadDimension());
      if (!more || dimension_ != expected) {
        return DataLoss(StrCat("'", file_->path(), "' row ", row_, ": its dimension is ", dimension_,
                               ", that of the rows before it ", expected));
      }
    }
    buffer_.resize(static_cast<size_t>(dimension_) * element_bytes_);
    LC_ASSIGN_OR_RETURN(const size_t got, file_->Read(buffer_.data(), buffer_.size()));
    if (got != buffer_.size()) return DataLoss(StrCat("'", file_->path(), "' row ", row_, " is truncated"));
    *row = Row();
    if (element_bytes_ == 1) {
      row->vector.assign(buffer_.begin(), buffer_.end());
    } else {
      row->vector.resize(dimension_);
      std::memcpy(row->vector.data(), buffer_.data(), buffer_.size());
    }
    const int64_t number = row_++;
    const absl::Status finite = CheckFinite(row->vector);
    if (!finite.ok()) return Annotate(finite, StrCat("'", file_->path(), "' row ", number));
    return true;
  }

  int64_t rows() const override { return rows_; }
  int64_t bytes_read() const override { return file_->bytes_read(); }
  int64_t bytes() const override { return file_->bytes(); }

 private:
  absl::StatusOr<bool> ReadDimension() {
    int32_t dimension = 0;
    LC_ASSIGN_OR_RETURN(const size_t got, file_->Read(&dimension, sizeof dimension));
    if (got == 0) return false;
    if (got != sizeof dimension || dimension < 1 || dimension > kDimensionMax) {
      return DataLoss(StrCat("'", file_->path(), "' row ", row_, ": ",
                             got == sizeof dimension ? StrCat("dimension ", dimension) : std::string("truncated"),
                             "; allowed: 1 .. ", kDimensionMax));
    }
    dimension_ = dimension;
    return true;
  }

  const std::unique_ptr<InputFile> file_;
  const int element_bytes_;
  int32_t dimension_ = 0;
  int64_t rows_ = 0, row_ = 0;
  std::vector<uint8_t> buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> OpenVecsRows(std::unique_ptr<InputFile> file, int element_bytes) {
  auto reader = std::make_unique<VecsReader>(std::move(file), element_bytes);
  LC_RETURN_IF_ERROR(reader->Start());
  return std::unique_ptr<RowReader>(std::move(reader));
}

}  // namespace lightcone::cli
