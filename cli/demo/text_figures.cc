#include "cli/demo/text_figures.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace lightcone::cli {
namespace {

constexpr int64_t kNearest = 10;

// What a right item at this rank gains (Jarvelin and Kekalainen 2002).
double GainAt(int64_t rank) { return 1 / std::log2(static_cast<double>(rank) + 1); }

// Sums of the figures over queries.
class TextSums {
 public:
  explicit TextSums(const TextTruth& truth) : truth_(truth) {}

  // `deep`: the hits are as many as mAP asks for.
  void Add(int64_t query, const v1::QueryResult& result, bool deep) {
    AddRecall(query, result);
    const int32_t label = truth_.query_labels[static_cast<size_t>(query)];
    const int64_t relevant = truth_.label_items[static_cast<size_t>(label)];
    if (relevant == 0) return;
    ++valid_;
    int64_t rank = 0, found = 0, first = 0, within_ten = 0;
    double precisions = 0, gain = 0;
    for (const v1::Hit& hit : result.hits()) {
      ++rank;
      if (truth_.gallery_labels[hit.id().number()] != label) continue;
      precisions += static_cast<double>(++found) / static_cast<double>(rank);
      if (first == 0) first = rank;
      if (rank > kNearest) continue;
      ++within_ten;
      gain += GainAt(rank);
    }
    cmc1_ += first == 1 ? 1 : 0;
    cmc5_ += first >= 1 && first <= 5 ? 1 : 0;
    p10_ += static_cast<double>(within_ten) / static_cast<double>(kNearest);
    mrr10_ += first >= 1 && first <= kNearest ? 1 / static_cast<double>(first) : 0;
    double best = 0;
    for (int64_t i = 1; i <= std::min(relevant, kNearest); ++i) best += GainAt(i);
    ndcg10_ += gain / best;
    if (!deep) return;
    ++deep_;
    ap_ += precisions / static_cast<double>(relevant);
  }

  DemoRow Take() const {
    DemoRow row;
    const auto mean = [](double sum, int64_t n) { return n == 0 ? 0 : sum / static_cast<double>(n); };
    row.cmc1 = mean(cmc1_, valid_);
    row.cmc5 = mean(cmc5_, valid_);
    row.map = mean(ap_, deep_);
    row.p10 = mean(p10_, valid_);
    row.mrr10 = mean(mrr10_, valid_);
    row.ndcg10 = mean(ndcg10_, valid_);
    row.recall10 = mean(recall_, asked_);
    return row;
  }

 private:
  void AddRecall(int64_t query, const v1::QueryResult& result) {
    const std::vector<int64_t>& own = truth_.own_nearest[static_cast<size_t>(query)];
    if (own.empty()) return;
    int64_t found = 0;
    for (int i = 0; i < std::min<int>(result.hits_size(), static_cast<int>(kNearest)); ++i) {
      const auto id = static_cast<int64_t>(result.hits(i).id().number());
      found += std::find(own.begin(), own.end(), id) != own.end() ? 1 : 0;
    }
    ++asked_;
    recall_ += static_cast<double>(found) / static_cast<double>(own.size());
  }

  const TextTruth& truth_;
  int64_t valid_ = 0, deep_ = 0, asked_ = 0;
  double cmc1_ = 0, cmc5_ = 0, p10_ = 0, mrr10_ = 0, ndcg10_ = 0, ap_ = 0, recall_ = 0;
};

}  // namespace

absl::StatusOr<DemoRow> MeasureTexts(client::Client& client, const GalleryQueries& what, const TextTruth& truth) {
  TextSums sums(truth);
  const size_t deep = std::min(what.queries.size(), static_cast<size_t>(truth.deep_queries));
  for (const bool is_deep : {true, false}) {
    GalleryQueries part = what;
    part.queries = is_deep ? what.queries.first(deep) : what.queries.subspan(deep);
    LC_RETURN_IF_ERROR(
        SearchEach(client, part, is_deep ? truth.depth : kNearest, [&](int64_t query, const v1::QueryResult& result) {
          sums.Add(query, result, is_deep);
          return absl::OkStatus();
        }));
  }
  DemoRow row = sums.Take();
  row.how = StrCat("Search, collection '", what.collection, "', exact, queries of generation ", what.generation,
                   what.older.has_value() ? StrCat(" that carry a vector of generation ", what.older->generation) : "");
  return row;
}

}  // namespace lightcone::cli
