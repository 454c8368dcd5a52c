#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "server/options/option_table.h"

namespace lightcone::server {
namespace {

size_t Edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestKey(std::string_view key) {
  key = key.substr(0, 256);
  const auto fewer = [key](const Option& a, const Option& b) { return Edits(a.key, key) < Edits(b.key, key); };
  return std::min_element(OptionTable().begin(), OptionTable().end(), fewer)->key;
}

}  // namespace lightcone::server
