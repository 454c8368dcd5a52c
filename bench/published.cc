#include "bench/published.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/files.h"
#include "base/status.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace lightcone::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBegin[] = "<!-- table:begin (written by `make bench`) -->\n", kEnd[] = "<!-- table:end -->\n";

bool Belongs(const Json& row, const Figure& figure) {
  const std::string text = StrCat(figure.name, "; ", figure.peer);
  const Json& parts = row.at("figure");
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Json& part) { return text.find(part.get<std::string>()) != std::string::npos; });
}

// Three significant digits, with commas between thousands.
std::string Rounded(double value) {
  if (value == 0) return "0";
  const double step = std::pow(10, std::floor(std::log10(std::abs(value))) - 2);
  char text[64];
  if (value >= 100) {
    std::string digits = std::to_string(std::llround(std::round(value / step) * step));
    for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
      digits.insert(static_cast<size_t>(at), 1, ',');
    }
    return digits;
  }
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string NumberOf(const Json& row, const char* key, const char* missing) {
  const auto it = row.find(key);
  return it == row.end() || it->is_null() ? missing : Rounded(it->get<double>());
}

std::string LineOf(const Json& row, char machine) {
  const std::string unit = row.at("unit"), peer = row.at("peer");
  const std::string ours = NumberOf(row, "value", ""), theirs = NumberOf(row, "peer_value", "");
  return StrCat("| ", row.at("what").get<std::string>(), " | ", ours.empty() ? "" : StrCat(ours, " ", unit), " | ",
                peer, theirs.empty() ? "" : StrCat(": ", theirs, " ", unit), " | ", NumberOf(row, "ratio", ""), " | ",
                row.at("goal").get<std::string>(), " | ", row.at("met").get<bool>() ? "yes" : "**no**", " | ",
                std::string(1, machine), " |\n");
}

}  // namespace

absl::StatusOr<std::string> UpdatedRows(const std::string& rows_json, const std::vector<Figure>& figures,
                                        const std::string& machine) {
  Json rows = Json::parse(rows_json, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return DataLoss("the published figures are no JSON list");
  for (Json& row : rows) {
    const auto belongs = [&](const Figure& figure) { return Belongs(row, figure); };
    const auto it = std::find_if(figures.begin(), figures.end(), belongs);
    if (it == figures.end() || std::count_if(figures.begin(), figures.end(), belongs) != 1) continue;
    row.update({{"value", it->value},
                {"unit", it->unit},
                {"peer_value", it->peer_value},
                {"ratio", it->ratio},
                {"goal", it->goal},
                {"met", it->met},
                {"spread", it->spread},
                {"machine", machine}});
  }
  return rows.dump(2) + "\n";
}

absl::StatusOr<std::string> PageWithTable(const std::string& page, const std::string& rows_json) {
  const Json rows = Json::parse(rows_json, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return DataLoss("the published figures are no JSON list");
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return FailedPrecondition(StrCat("the page has no markers ", kBegin));
  }
  std::string table =
      "| what | ours | peer | ratio | goal | met | machine |\n| --- | ---: | --- | ---: | --- | --- | --- |\n";
  std::vector<std::string> machines;  // a letter each, in the order of the rows
  for (const Json& row : rows) {
    const std::string machine = row.at("machine");
    const auto at = std::find(machines.begin(), machines.end(), machine) - machines.begin();
    if (at == std::ssize(machines)) machines.push_back(machine);
    table += LineOf(row, static_cast<char>('A' + at));
  }
  table += '\n';
  for (size_t i = 0; i < machines.size(); ++i) {
    table += StrCat("- Machine ", std::string(1, static_cast<char>('A' + i)), ": ", machines[i], "\n");
  }
  return StrCat(page.substr(0, begin), kBegin, table, page.substr(end));
}

absl::Status Publish(const std::string& folder, const std::vector<Figure>& figures, const std::string& machine) {
  const std::string results = folder + "/results.json", readme = folder + "/README.md";
  LC_ASSIGN_OR_RETURN(const std::string old_rows, ReadFile(results));
  LC_ASSIGN_OR_RETURN(const std::string rows, UpdatedRows(old_rows, figures, machine));
  LC_ASSIGN_OR_RETURN(const std::string old_page, ReadFile(readme));
  LC_ASSIGN_OR_RETURN(const std::string page, PageWithTable(old_page, rows));
  LC_RETURN_IF_ERROR(WriteFileAtomically(results, rows));
  return WriteFileAtomically(readme, page);
}

}  // namespace lightcone::bench
