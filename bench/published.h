// The figures that docs/benchmarks/ shows: rows of results.json, and the table between two markers of README.md.
// Threads: pure functions, but for Publish, which has one caller at a time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/report.h"

namespace lightcone::bench {

// `rows_json` with the rows measured anew that exactly one figure belongs to: its name and peer hold all parts of the
// row's "figure". Other rows stay as they are.
absl::StatusOr<std::string> UpdatedRows(const std::string& rows_json, const std::vector<Figure>& figures,
                                        const std::string& machine);

// `page` with the table of `rows_json` between its markers. FAILED_PRECONDITION without markers.
absl::StatusOr<std::string> PageWithTable(const std::string& page, const std::string& rows_json);

// Updates FOLDER/results.json by `figures`, and the table in FOLDER/README.md.
absl::Status Publish(const std::string& folder, const std::vector<Figure>& figures, const std::string& machine);

}  // namespace lightcone::bench
