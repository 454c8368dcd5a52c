#include "trainer/uncertainty/neighbours.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/status.h"
#include "trainer/distance_blocks_torch.h"

namespace lightcone {

absl::StatusOr<NeighbourLists> NearestNeighbours(const RetrievalSpace& space, const NamedSide& items,
                                                 const NamedSide& among, bool same_items, int64_t k_max) {
  LC_RETURN_IF_ERROR(CheckComparison(space, items.embeddings, among.embeddings, same_items, {items.name, among.name}));
  torch::NoGradGuard no_grad;
  const int64_t count = static_cast<int64_t>(items.embeddings.labels.size());
  const int64_t columns = static_cast<int64_t>(among.embeddings.labels.size());
  const int64_t k = std::min(k_max, columns - (same_items ? 1 : 0));
  if (k < 1) return InvalidField(among.name, "no other image", "at least 1 besides the item itself");
  const PreparedSide a = PrepareSide(space, items.embeddings, /*negate_time=*/false);
  const PreparedSide b = PrepareSide(space, among.embeddings, /*negate_time=*/true);
  NeighbourLists lists;
  lists.k = static_cast<size_t>(k);
  lists.ids.reserve(static_cast<size_t>(count * k));
  lists.distances.reserve(static_cast<size_t>(count * k));
  for (int64_t begin = 0; begin < count; begin += BlockRows(columns)) {
    const int64_t n = std::min(BlockRows(columns), count - begin);
    torch::Tensor block = OrderBlock(a, b, begin, n);
    if (same_items) block.narrow(1, begin, n).fill_diagonal_(std::numeric_limits<double>::infinity());
    const auto [order, rows] = block.topk(k, 1, /*largest=*/false, /*sorted=*/true);
    const torch::Tensor distances = DistancesOf(space, order).contiguous();
    const torch::Tensor ids = rows.to(torch::kInt32).contiguous();
    lists.ids.insert(lists.ids.end(), ids.data_ptr<int32_t>(), ids.data_ptr<int32_t>() + n * k);
    lists.distances.insert(lists.distances.end(), distances.data_ptr<double>(), distances.data_ptr<double>() + n * k);
  }
  return lists;
}

}  // namespace lightcone
