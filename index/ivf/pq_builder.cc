#include "index/ivf/pq_builder.h"

#include <faiss/impl/ProductQuantizer.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/dcheck.h"
#include "base/status.h"
#include "index/ivf/pq_codes.h"

namespace lightcone {
namespace {

constexpr int64_t kTrainingRows = 64 * 256;
constexpr int kCodebookIterations = 12;
constexpr int64_t kCodesBetweenChecks = 1'024;

// What rows lie away from the centres of their lists.
class Residuals {
 public:
  Residuals(const Lists& lists, int dimension, absl::FunctionRef<RowValues(int64_t)> row)
      : lists_(lists), dimension_(static_cast<size_t>(dimension)), row_(row) {}

  void Write(int64_t i, float* r) const {
    const RowValues row = row_(i);
    const std::span<const float> centre = lists_.centre(lists_.ListOf(i));
    for (size_t j = 0; j < dimension_; ++j) {
      r[j] = static_cast<float>(double{row.factors.scale} * double{row.z[j]} - double{centre[j]});
    }
  }

 private:
  const Lists& lists_;
  const size_t dimension_;
  const absl::FunctionRef<RowValues(int64_t)> row_;
};

struct Codebooks {
  size_t parts = 0, words = 0, length = 0;
  std::vector<float> numbers;       // parts x words x length
  std::vector<float> by_number;     // the same, parts x length x words: one number of every word side by side
  std::vector<float> half_squares;  // parts x words

  const float* word(size_t part, size_t i) const { return &numbers[(part * words + i) * length]; }
};

absl::StatusOr<Codebooks> Train(const Residuals& residuals, int dimension, int64_t rows, const PqSettings& settings,
                                const std::function<bool()>& stop) {
  const int64_t n = std::min(rows, kTrainingRows);
  std::vector<float> sample(static_cast<size_t>(n) * static_cast<size_t>(dimension));
  for (int64_t i = 0; i < n; ++i) {
    residuals.Write(i * rows / n, &sample[static_cast<size_t>(i) * static_cast<size_t>(dimension)]);
  }
  size_t bits = 8;  // a byte a code, whatever the number of words: few rows train few words
  while ((int64_t{1} << bits) > n) --bits;
  Codebooks books;
  books.parts = static_cast<size_t>(settings.parts);
  books.length = static_cast<size_t>(dimension) / books.parts;
  books.words = size_t{1} << bits;
  if (bits == 0) {
    books.numbers = std::move(sample);
  } else {
    omp_set_num_threads(settings.threads);  // setting of this thread alone
    std::vector<float> slice(static_cast<size_t>(n) * books.length);
    for (size_t part = 0; part < books.parts; ++part) {  // FAISS trains part by part as well; `stop` is asked between.
      if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "code build stopped");
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        std::copy_n(&sample[i * static_cast<size_t>(dimension) + part * books.length], books.length,
                    &slice[i * books.length]);
      }
      faiss::ProductQuantizer quantizer(books.length, 1, bits);
      quantizer.cp.niter = kCodebookIterations;
      quantizer.cp.min_points_per_centroid = 1;  // no warning on the terminal for few rows
      quantizer.train(static_cast<size_t>(n), slice.data());
      books.numbers.insert(books.numbers.end(), quantizer.centroids.begin(), quantizer.centroids.end());
    }
  }
  for (size_t part = 0; part < books.parts; ++part) {
    for (size_t i = 0; i < books.words; ++i) {
      float square = 0;
      for (size_t j = 0; j < books.length; ++j) square += books.word(part, i)[j] * books.word(part, i)[j];
      books.half_squares.push_back(square / 2);
    }
    for (size_t j = 0; j < books.length; ++j) {
      for (size_t i = 0; i < books.words; ++i) books.by_number.push_back(books.word(part, i)[j]);
    }
  }
  return books;
}

uint8_t NearestWord(const Codebooks& books, size_t part, const float* r) {
  std::array<float, PqCodes::kWordsMax> scores;
  for (size_t i = 0; i < books.words; ++i) scores[i] = -books.half_squares[part * books.words + i];
  const float* number = &books.by_number[part * books.length * books.words];
  for (size_t j = 0; j < books.length; ++j, number += books.words) {
    for (size_t i = 0; i < books.words; ++i) scores[i] += r[j] * number[i];
  }
  return static_cast<uint8_t>(std::max_element(scores.begin(), scores.begin() + static_cast<ptrdiff_t>(books.words)) -
                              scores.begin());
}

}  // namespace

absl::StatusOr<std::string> EncodePq(const Space& space, const Lists& lists, absl::FunctionRef<RowValues(int64_t)> row,
                                     const PqSettings& settings, const std::function<bool()>& stop) {
  LC_DCHECK(settings.parts >= 1 && space.dimension % settings.parts == 0);
  const int64_t rows = lists.rows();
  const size_t dimension = static_cast<size_t>(space.dimension);
  const Residuals residuals(lists, space.dimension, row);
  try {
    LC_ASSIGN_OR_RETURN(const Codebooks books, Train(residuals, space.dimension, rows, settings, stop));
    PqCodes::Header header;
    header.rows = static_cast<uint32_t>(rows);
    header.dimension = static_cast<uint32_t>(dimension);
    header.parts = static_cast<uint32_t>(books.parts);
    header.words = static_cast<uint32_t>(books.words);
    std::vector<float> biases, r(dimension);
    std::string codes;
    for (int64_t i = 0; i < rows; ++i) {
      if (i % kCodesBetweenChecks == 0 && stop()) return MakeStatus(absl::StatusCode::kCancelled, "code build stopped");
      residuals.Write(i, r.data());
      const std::span<const float> centre = lists.centre(lists.ListOf(i));
      double bias = 0;  // Euclid's: |h'|^2 - |m|^2
      for (size_t part = 0; part < books.parts; ++part) {
        const uint8_t code = NearestWord(books, part, &r[part * books.length]);
        codes.push_back(static_cast<char>(code));
        const float* const word = books.word(part, code);
        for (size_t j = 0; j < books.length; ++j) {
          bias += double{word[j]} * (double{word[j]} + 2 * double{centre[part * books.length + j]});
        }
      }
      biases.push_back(space.metric == Metric::kEuclidean ? static_cast<float>(bias) : row(i).factors.bias);
    }
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes.append(reinterpret_cast<const char*>(books.numbers.data()), books.numbers.size() * sizeof(float));
    bytes.append(reinterpret_cast<const char*>(biases.data()), biases.size() * sizeof(float));
    return bytes + codes;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for codes of ", rows, " rows"));
  }
}

}  // namespace lightcone
