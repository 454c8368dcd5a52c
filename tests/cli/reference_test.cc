// The tables of docs/reference are what the program itself says: commands and flags from --help, codes from the wire
// and the command line, metrics from a scrape. LIGHTCONE_WRITE_REFERENCE=1 writes them again.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/context.h"
#include "cli/exit_codes.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/families.h"
#include "server/rpc/rpc_options.h"
#include "tests/cli/run_program.h"
#include "tests/rpc/fake_engine.h"

namespace lightcone::cli {
namespace {

// Compares the part of a page between <!-- NAME:begin --> and <!-- NAME:end --> with `wanted`, or writes it.
void ExpectInPage(const std::string& page, const std::string& name, const std::string& wanted) {
  const std::string path = StrCat(LIGHTCONE_SOURCE_DIR, "/docs/reference/", page);
  std::string text = ReadFile(path).value();
  const size_t mark = text.find(StrCat("<!-- ", name, ":begin"));
  const size_t end = text.find(StrCat("<!-- ", name, ":end"));
  ASSERT_NE(mark, std::string::npos) << path;
  ASSERT_NE(end, std::string::npos) << path;
  const size_t begin = text.find('\n', mark) + 1;
  if (std::getenv("LIGHTCONE_WRITE_REFERENCE") != nullptr) {
    text.replace(begin, end - begin, wanted);
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), wanted)
      << "write it again with LIGHTCONE_WRITE_REFERENCE=1 build/bin/reference_test";
}

std::string Cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

struct HelpEntry {
  std::string section, name, help;
};

// The entries of a help text: names in columns 2 to 29 and the help behind them, or a longer name and the help in the
// line below.
std::vector<HelpEntry> EntriesOf(const std::string& help) {
  std::vector<std::string> lines;
  std::istringstream text(help);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const auto is_help = [&](size_t i) { return i < lines.size() && lines[i].starts_with(std::string(30, ' ')); };
  std::vector<HelpEntry> entries;
  std::string section;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (!line.empty() && line[0] != ' ') section = line.ends_with(':') ? line : "";
    if (section.empty() || !line.starts_with("  ") || is_help(i)) continue;
    std::string name = line.substr(2, is_help(i + 1) ? std::string::npos : 28);
    name.erase(name.find_last_not_of(' ') + 1);
    entries.push_back({section, name,
                       is_help(i + 1)     ? lines[i + 1].substr(30)
                       : line.size() > 30 ? line.substr(30)
                                          : ""});
  }
  return entries;
}

// The page of docs/reference/cli that has a command, by the first words of the command.
std::string PageOf(const std::vector<std::string>& words) {
  static const std::map<std::string, std::string> pages = {{"serve", "program"},
                                                           {"demo", "program"},
                                                           {"bench", "program"},
                                                           {"repair", "program"},
                                                           {"status", "program"},
                                                           {"version", "program"},
                                                           {"key", "program"},
                                                           {"completion", "program"},
                                                           {"train", "models"},
                                                           {"training", "models"},
                                                           {"eval", "models"},
                                                           {"embed", "models"},
                                                           {"experiment", "models"},
                                                           {"adapt", "adapters"},
                                                           {"collection", "collections"},
                                                           {"generation", "generations"},
                                                           {"generation adapter", "adapters"},
                                                           {"generation probes", "adapters"},
                                                           {"rollout", "rollouts"},
                                                           {"upsert", "items"},
                                                           {"search", "items"},
                                                           {"get", "items"},
                                                           {"delete", "items"},
                                                           {"scroll", "items"},
                                                           {"count", "items"},
                                                           {"payload", "payloads"},
                                                           {"facet", "payloads"},
                                                           {"import", "transfers"},
                                                           {"export", "transfers"},
                                                           {"backfill", "backfill"},
                                                           {"job", "backfill"},
                                                           {"snapshot", "snapshots"},
                                                           {"restore", "snapshots"}};
  if (words.empty()) return "program";
  const auto two = words.size() > 1 ? pages.find(StrCat(words[0], " ", words[1])) : pages.end();
  if (two != pages.end()) return two->second;
  const auto one = pages.find(words[0]);
  return one != pages.end() ? one->second : StrCat("no page has the command ", words[0]);
}

// Appends a command and those below it to the texts of their pages.
void Describe(const TemporaryFolder& scratch, const std::vector<std::string>& words, const std::string& what,
              std::map<std::string, std::string>* pages) {
  std::vector<std::string> arguments = words;
  arguments.push_back("--help");
  const Outcome outcome = RunBinary(scratch, arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::string title = "lightcone", table;
  for (const std::string& word : words) title += " " + word;
  std::vector<HelpEntry> below;
  for (const HelpEntry& entry : EntriesOf(outcome.out)) {
    if (entry.section == "Subcommands:") {
      below.push_back(entry);
    } else if (entry.section == "Settings:" || entry.name.starts_with("-h,--help")) {
      continue;  // The options of `serve` have pages of their own.
    } else {
      table += StrCat("| `", entry.name, "` | ", Cell(entry.help), " |\n");
    }
  }
  std::string& page = (*pages)[PageOf(words)];
  page += StrCat("## ", title, "\n\n", what, ".\n\n");
  if (!table.empty()) page += StrCat("| argument | meaning |\n| --- | --- |\n", table, "\n");
  for (const HelpEntry& one : below) {
    std::vector<std::string> longer = words;
    longer.push_back(one.name);
    Describe(scratch, longer, one.help, pages);
  }
}

TEST(Reference, ThePagesOfTheCommandLineAreWhatHelpSays) {
  const TemporaryFolder scratch;
  std::map<std::string, std::string> pages;
  Describe(scratch, {}, "Every command takes these flags, before or behind its name", &pages);
  for (const auto& [page, text] : pages) ExpectInPage(StrCat("cli/", page, ".md"), "commands", "\n" + text);
}

TEST(Reference, ThePageOfErrorsHasEveryCodeAndItsExitCode) {
  struct Meaning {
    const char *when, *what_to_do;
  };
  const std::map<std::string, Meaning> meanings = {
      {"CANCELLED", {"The client cancelled the call.", "Nothing. A write may have happened."}},
      {"INVALID_ARGUMENT", {"The request can never work.", "Change the field that the error names."}},
      {"DEADLINE_EXCEEDED",
       {"The client's deadline passed.",
        "Repeat with a longer deadline. A write may have happened; it is idempotent."}},
      {"NOT_FOUND",
       {"The collection, generation, item or job does not exist.",
        "Read the message: it lists what exists, unless a collection is missing."}},
      {"ALREADY_EXISTS",
       {"The name is taken, or the request_id was used with other content.", "Choose another name or request_id."}},
      {"PERMISSION_DENIED",
       {"The key has not the scope that the call needs, or not for this collection.",
        "Use another key, or have the scope added."}},
      {"UNAUTHENTICATED",
       {"The call has no key, or one that is unknown or expired.", "Send a valid key with each call."}},
      {"RESOURCE_EXHAUSTED",
       {"A queue, the disk or memory is full, or a message is too large.",
        "Repeat after a pause, or raise the limit that the message names."}},
      {"FAILED_PRECONDITION",
       {"The state does not allow the call: for example, items are out of reach.",
        "Change the state as the message says, then repeat."}},
      {"ABORTED",
       {"Another caller was faster: expect_active or expected_sequence did not hold.", "Read again, then decide."}},
      {"OUT_OF_RANGE",
       {"wait_for_sequence is beyond the newest write, and the call has no deadline.", "Set a deadline."}},
      {"UNIMPLEMENTED", {"The method is not part of this version.", "Use a newer server."}},
      {"INTERNAL", {"The server has a fault, which its log describes.", "Report the fault."}},
      {"UNAVAILABLE",
       {"The server is starting, draining or gone, or its store is read-only after an I/O error.",
        "Repeat after a pause. The C++ client repeats reads and operator calls by itself."}},
      {"DATA_LOSS",
       {"A stored value is damaged; the message names table and key.", "Restore the value or the data folder."}}};
  std::string text =
      "| code | number | exit code of the command line | when | what to do |\n| --- | --- | --- | --- | --- |\n";
  for (int code = 1; code <= 16; ++code) {
    const auto meaning = meanings.find(std::string(server::CodeName(code)));
    if (meaning == meanings.end()) continue;  // No call answers UNKNOWN.
    text += StrCat("| `", meaning->first, "` | ", code, " | ",
                   ExitCodeOf(absl::Status(static_cast<absl::StatusCode>(code), "")), " | ", meaning->second.when,
                   " | ", meaning->second.what_to_do, " |\n");
  }
  ExpectInPage("errors.md", "errors", text);
}

// Has one of everything that a metric tells of.
class FullEngine final : public server::FakeEngine {
 public:
  FullEngine() { with_folder_.data_folder = "/"; }
  const server::EngineOptions& options() const override { return with_folder_; }
  absl::StatusOr<std::vector<server::CollectionStatus>> ListCollections() override {
    server::CollectionStatus status;
    status.name = "c";
    status.items_by_generation = {{1, 1}};
    status.segments.emplace_back().kind = "hnsw";
    status.segments.back().default_recall = 1;
    status.model_watch.emplace_back().generation = 1;
    return std::vector{status};
  }
  std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const override {
    return {{"refused", Internal("damaged")}};
  }
  absl::StatusOr<server::LiveRecallStatus> GetLiveRecall(const std::string&) override {
    server::LiveRecallStatus status;
    status.recall.emplace_back().recent_expected = 1;
    status.breadths.emplace_back().factor = 2;
    for (const char* quantity : {"distance", "uncertainty"}) {
      server::LiveSpread& spread = status.spreads.emplace_back();
      spread.quantity = quantity;
      spread.quantiles = {1, 1, 1};
      spread.drift = 0.5;
    }
    return status;
  }
  absl::StatusOr<server::BackfillStatus> GetBackfill(const std::string&) override {
    server::BackfillStatus status;
    status.state = server::BackfillState::kRunning;
    status.started = absl::Now();
    return status;
  }
  absl::StatusOr<server::CanaryStatus> GetCanary(const std::string&) override {
    server::CanaryStatus status;
    status.generation = 2;
    return status;
  }
  absl::StatusOr<server::JobPage> ListJobs(const std::string&, std::string_view, uint32_t,
                                           const std::string&) override {
    server::JobPage page;
    page.jobs.emplace_back().state = server::JobState::kRunning;
    return page;
  }

  server::Snapshots& snapshots() override { return with_verified_; }

 private:
  class Verified final : public server::FakeSnapshots {
    server::SnapshotFigures Figures() override {
      server::SnapshotFigures figures;
      figures.newest_verified = absl::Now();
      return figures;
    }
  };

  Verified with_verified_;
  server::EngineOptions with_folder_;
};

// Name, type, help and names of labels of each family of a scrape, as rows of a table.
std::map<std::string, std::string> RowsOf(const std::string& scrape) {
  std::map<std::string, std::string> helps, types, labels, rows;
  std::istringstream lines(scrape);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, what, name;
    words >> mark >> what >> name;
    if (mark == "#") {
      std::string text;
      std::getline(words >> std::ws, text);
      (what == "HELP" ? helps : types)[name] = text;
      continue;
    }
    const size_t open = line.find('{');
    if (open == std::string::npos || helps.empty()) continue;
    std::string names;
    for (size_t at = open; at != std::string::npos && line[at] != '}';) {
      const size_t equals = line.find('=', at);
      const std::string label = line.substr(at + 1, equals - at - 1);
      if (label != "le" && label != "quantile") names += StrCat(names.empty() ? "`" : ", `", label, "`");
      at = line.find_first_of(",}", line.find('"', equals + 2));
    }
    std::string family = line.substr(0, open);
    for (const char* ending : {"_bucket", "_sum", "_count"}) {
      const std::string base = family.substr(0, family.size() - std::string_view(ending).size());
      if (family.ends_with(ending) && helps.contains(base)) family = base;
    }
    labels[family] = names;
  }
  for (const auto& [name, help] : helps) {
    rows[name] = StrCat("| `", name, "` | ", types[name], " | ", labels[name], " | ", Cell(help), " |\n");
  }
  return rows;
}

TEST(Reference, ThePageOfMetricsHasWhatAScrapeAnswers) {
  FullEngine engine;
  server::Metrics metrics("1");
  metrics.ExpectParts("Retrieval/Search");
  metrics.RecordCall("Retrieval/Search", "OK", absl::Seconds(1));
  server::RpcFigures rpc;
  rpc.lanes.emplace_back().lane = "read";
  rpc.lanes.back().refused = {{"wait", 1}};
  rpc.trust.keys.emplace();
  rpc.trust.keys->limited.push_back({"search", {.limits = {.calls_per_second = 1}}});
  rpc.trust.writes.emplace();
  rpc.trust.certificates.emplace();
  rpc.trust.audit.emplace();
  rpc.trace.emplace();
  metrics.SetSources(&engine, [&rpc] { return rpc; });
  server::FamilyList device;
  gpu::ServingStatus serving;
  serving.state = "serving";
  server::AddDevice(serving, &device);
  std::map<std::string, std::string> rows = RowsOf(metrics.Scrape());
  rows.merge(RowsOf(prometheus::TextSerializer().Serialize(device.Take())));
  metrics.SetSources(nullptr, nullptr);
  // Families of collections, and those of the server.
  std::string of_collections = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  std::string of_server = of_collections;
  for (const auto& [name, row] : rows)
    (row.find("`collection`") != std::string::npos ? of_collections : of_server) += row;
  ExpectInPage("metrics.md", "metrics", of_collections);
  ExpectInPage("server-metrics.md", "metrics", of_server);
}

// The scrape above has no family whose condition it does not make true: the code names that one, too.
TEST(Reference, EveryFamilyThatTheCodeNamesStandsOnAPageOfMetrics) {
  std::string pages;
  for (const char* page : {"metrics.md", "server-metrics.md"}) {
    pages += ReadFile(StrCat(LIGHTCONE_SOURCE_DIR, "/docs/reference/", page)).value();
  }
  static const std::regex quoted(R"re("(lightcone_[a-z0-9_]+)")re");
  size_t families = 0;
  for (const auto& file : std::filesystem::directory_iterator(LIGHTCONE_SOURCE_DIR "/server/metrics")) {
    if (file.path().extension() != ".cc") continue;
    const std::string code = ReadFile(file.path().string()).value();
    for (std::sregex_iterator it(code.begin(), code.end(), quoted), end; it != end; ++it, ++families) {
      EXPECT_NE(pages.find(StrCat("| `", (*it)[1].str(), "` |")), std::string::npos)
          << file.path() << ": " << (*it)[1] << "; make its condition true in FullEngine, or in the test above";
    }
  }
  EXPECT_GE(families, 80u);
}

}  // namespace
}  // namespace lightcone::cli
