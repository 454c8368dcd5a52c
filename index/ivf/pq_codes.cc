#include "index/ivf/pq_codes.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "geometry/kernels.h"

namespace lightcone {

absl::StatusOr<PqCodes> PqCodes::Parse(std::string_view bytes, int dimension, int64_t rows) {
  PqCodes codes;
  Header& header = codes.header_;
  if (bytes.size() < sizeof(header)) {
    return DataLoss(StrCat("codes have ", bytes.size(), " bytes, less than their header"));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return DataLoss("codes have a wrong magic number");
  if (header.version != kVersion) {
    return DataLoss(StrCat("codes have format version ", header.version, "; known: ", kVersion));
  }
  if (static_cast<int64_t>(header.rows) != rows || header.dimension != static_cast<uint32_t>(dimension) ||
      header.parts == 0 || header.parts > header.dimension || header.dimension % header.parts != 0 ||
      header.words == 0 || header.words > kWordsMax) {
    return DataLoss("codes do not fit their segment");
  }
  const uint64_t numbers = uint64_t{header.words} * header.dimension + header.rows;
  const uint64_t expected = sizeof(header) + numbers * sizeof(float) + uint64_t{header.rows} * header.parts;
  if (bytes.size() != expected) return DataLoss(StrCat("codes have ", bytes.size(), " bytes instead of ", expected));
  codes.codebooks_ = reinterpret_cast<const float*>(bytes.data() + sizeof(header));
  codes.biases_ = codes.codebooks_ + uint64_t{header.words} * header.dimension;
  codes.codes_ = reinterpret_cast<const uint8_t*>(codes.biases_ + header.rows);
  return codes;
}

PqQuery::PqQuery(const PqCodes& codes, const BoundQuery& query)
    : codes_(codes), b_(query.b()), euclidean_(query.item_space().metric == Metric::kEuclidean) {
  const PqCodes::Header& header = codes.header_;
  const size_t length = header.dimension / header.parts;
  table_.resize(size_t{header.parts} * PqCodes::kWordsMax, 0.0f);
  const float* word = codes.codebooks_;
  for (size_t part = 0; part < header.parts; ++part) {
    for (size_t i = 0; i < header.words; ++i, word += length) {
      table_[part * PqCodes::kWordsMax + i] = Dot(query.a() + part * length, word, length);
    }
  }
}

void PqQuery::Score(int64_t begin, size_t n, float centre_score, float centre_bias, float* scores) const {
  const size_t parts = codes_.header_.parts;
  const float constant = centre_score + (euclidean_ ? 0.0f : b_ * centre_bias);
  const uint8_t* code = codes_.codes_ + static_cast<size_t>(begin) * parts;
  for (size_t i = 0; i < n; ++i, code += parts) {
    // Four sums: lookups do not wait for each other.
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const float* table = table_.data();
    size_t part = 0;
    for (; part + 4 <= parts; part += 4, table += 4 * PqCodes::kWordsMax) {
      s0 += table[code[part]];
      s1 += table[PqCodes::kWordsMax + code[part + 1]];
      s2 += table[2 * PqCodes::kWordsMax + code[part + 2]];
      s3 += table[3 * PqCodes::kWordsMax + code[part + 3]];
    }
    for (; part < parts; ++part, table += PqCodes::kWordsMax) s0 += table[code[part]];
    scores[i] = (s0 + s1) + (s2 + s3) - b_ * codes_.biases_[static_cast<size_t>(begin) + i] + constant;
  }
}

void BestRows::Add(ScoredRow row) {
  if (full()) {
    std::pop_heap(rows_.begin(), rows_.end(), Better);
    rows_.back() = row;
  } else {
    rows_.push_back(row);
  }
  std::push_heap(rows_.begin(), rows_.end(), Better);
}

}  // namespace lightcone
