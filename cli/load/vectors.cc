#include "cli/load/vectors.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/status.h"
#include "cli/formats/rows.h"

namespace lightcone::cli {
namespace {

constexpr char kClustered[] = "random-clustered";
constexpr int64_t kClusteredItems = 100'000;
constexpr double kSpread = 0.7;  // norm of the noise around a centre
constexpr uint64_t kCentreStream = 0xce27e5, kRowStream = 0x2035;

void AddNormals(Rng& rng, double scale, std::span<float> out) {
  for (float& x : out) x += static_cast<float>(scale * rng.Normal());
}

std::vector<float> Centres(const LoadSource& source) {
  const size_t d = static_cast<size_t>(source.dimension);
  std::vector<float> centres(static_cast<size_t>(source.clusters) * d, 0.0f);
  Rng rng(MixSeed({source.seed, kCentreStream}));
  AddNormals(rng, 1, centres);
  for (size_t begin = 0; begin < centres.size(); begin += d) {
    double squares = 0;
    for (size_t i = 0; i < d; ++i) squares += double{centres[begin + i]} * centres[begin + i];
    const double inverse = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (size_t i = 0; i < d; ++i) centres[begin + i] = static_cast<float>(centres[begin + i] * inverse);
  }
  return centres;
}

LoadVectors Clustered(const LoadSource& source) {
  const size_t d = static_cast<size_t>(source.dimension);
  const std::vector<float> centres = Centres(source);
  Rng rng(MixSeed({source.seed, kRowStream}));
  const double scale = kSpread / std::sqrt(static_cast<double>(d));
  const auto draw = [&](int64_t count) {
    std::vector<float> rows(static_cast<size_t>(count) * d);
    for (size_t begin = 0; begin < rows.size(); begin += d) {
      const size_t centre = rng.Below(static_cast<uint32_t>(source.clusters));
      std::copy_n(centres.begin() + static_cast<std::ptrdiff_t>(centre * d), d,
                  rows.begin() + static_cast<std::ptrdiff_t>(begin));
      AddNormals(rng, scale, std::span(rows).subspan(begin, d));
    }
    return rows;
  };
  LoadVectors vectors;
  vectors.dimension = source.dimension;
  vectors.items = draw(source.items > 0 ? source.items : kClusteredItems);
  vectors.queries = draw(source.query_count);
  return vectors;
}

absl::Status Check(const LoadSource& source) {
  if (source.items < 0) return InvalidField("--items", StrCat(source.items), "1 or more, or 0 for all");
  if (source.query_count < 1) return InvalidField("--query-count", StrCat(source.query_count), "1 or more");
  if (source.dimension < 2 || source.dimension > 4096) {
    return InvalidField("--dimension", StrCat(source.dimension), "2 .. 4096");
  }
  if (source.clusters < 1) return InvalidField("--clusters", StrCat(source.clusters), "1 or more");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadVectors(const std::string& path, int64_t rows_max, int* dimension) {
  LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf("", path));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> reader, OpenRows(path, format));
  std::vector<float> values;
  Row row;
  for (int64_t count = 0; rows_max == 0 || count < rows_max; ++count) {
    LC_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
    if (!more) break;
    if (*dimension == 0) *dimension = static_cast<int>(row.vector.size());
    if (row.vector.size() != static_cast<size_t>(*dimension)) {
      return InvalidField(StrCat(path, " row ", count), StrCat(row.vector.size(), " numbers"),
                          StrCat(*dimension, ", as the rows before it"));
    }
    if (count == 0 && reader->rows() > 0) {
      const int64_t rows = rows_max == 0 ? reader->rows() : std::min(rows_max, reader->rows());
      values.reserve(static_cast<size_t>(rows) * row.vector.size());
    }
    values.insert(values.end(), row.vector.begin(), row.vector.end());
  }
  return values;
}

absl::StatusOr<LoadVectors> MakeLoadVectors(const LoadSource& source) {
  LC_RETURN_IF_ERROR(Check(source));
  LoadVectors vectors;
  if (source.data == kClustered) {
    vectors = Clustered(source);
  } else {
    if (!RowFormatOf("", source.data).ok()) {
      return InvalidField("--data", StrCat("'", source.data, "'"),
                          StrCat(kClustered, ", or a file that ends in .npy, .fvecs, .bvecs or .jsonl"));
    }
    const int64_t held_out = source.queries.empty() ? source.query_count : 0;
    const int64_t wanted = source.items == 0 ? 0 : source.items + held_out;
    LC_ASSIGN_OR_RETURN(vectors.items, ReadVectors(source.data, wanted, &vectors.dimension));
    const int64_t rows = vectors.item_count();
    if (rows <= held_out) {
      return InvalidField("--data", StrCat(source.data, " with ", rows, " rows"),
                          StrCat("more than the ", held_out, " that are held out as queries (--query-count)"));
    }
    const auto cut = vectors.items.begin() + static_cast<std::ptrdiff_t>((rows - held_out) * vectors.dimension);
    vectors.queries.assign(cut, vectors.items.end());
    vectors.items.erase(cut, vectors.items.end());
  }
  if (!source.queries.empty()) {
    LC_ASSIGN_OR_RETURN(vectors.queries, ReadVectors(source.queries, source.query_count, &vectors.dimension));
    if (vectors.queries.empty()) return InvalidField("--queries", source.queries, "a file with at least one row");
  }
  return vectors;
}

}  // namespace lightcone::cli
