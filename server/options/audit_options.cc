#include "server/options/option_rows.h"

namespace lightcone::server {

void AddAudit(std::vector<Option>* out) {
  out->push_back(Text("audit.file", FIELD(audit.file), "a file, or empty",
                      {"", "File with a JSON line for each call of an operator; empty: none.",
                       "Wherever it must be known who changed what."}));
  out->push_back(Flag("audit.data", FIELD(audit.data),
                      {"", "Whether the audit file also has calls that read and write items.",
                       "Where reads must be known, too: it costs a line for each call."}));
  out->push_back(Whole("audit.bytes_max", FIELD(audit.bytes_max), 64 << 10, int64_t{1} << 40,
                       {"bytes", "Size of the audit file above which it is renamed to FILE.1, and FILE.1 to FILE.2.",
                        "Where files are collected in other sizes."}));
  out->push_back(Whole("audit.kept", FIELD(audit.kept), 0, 1'000,
                       {"", "Renamed audit files that are kept.", "More where they must be kept for longer."}));
  out->push_back(Whole("log.slow_search_ms", FIELD(engine.slow_search_ms), 0, 3'600'000,
                       {"ms", "Time from which a search gets a line in the log with its plan; 0: no search does.",
                        "To find the searches that are slow: 100, for example."}));
}

}  // namespace lightcone::server
