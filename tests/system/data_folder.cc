#include "tests/system/data_folder.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"

namespace lightcone {
namespace {

using server::Engine;

constexpr double kDistanceError = 1e-4;
constexpr absl::Duration kChildMax = absl::Minutes(2);
constexpr int64_t kPage = 25;

std::string BytesOf(const std::vector<float>& vector) {
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)));
}

std::string TextOfItem(const server::StoredItem& item) {
  std::string text = StrCat(ToString(item.id), " ", item.payload_json, " generation ", item.generation, " of");
  for (const uint32_t generation : item.generations) text += StrCat(" ", generation);
  return StrCat(text, " sequence ", item.sequence, item.has_input ? " input" : "", " ", BytesOf(item.vector));
}

std::vector<ItemId> GalleryIds() {
  std::vector<ItemId> ids;
  for (uint64_t i = 1; i <= kGalleryItems; ++i) ids.push_back(ItemId{i});
  for (uint64_t i = 0; i < kFewItems; ++i) ids.push_back(ItemId{kNewItem + i});
  for (uint64_t i = 0; i < kLateItems; ++i) ids.push_back(ItemId{kLateItem + i});
  for (uint64_t i = 1; i <= kFewItems; ++i) ids.push_back(ItemId{FolderName(i)});
  ids.push_back(ItemId{kInputItem});
  return ids;
}

std::vector<ItemId> SmallIds() {
  std::vector<ItemId> ids;
  for (uint64_t i = 1; i <= kFewItems; ++i) ids.push_back(ItemId{i});
  return ids;
}

class Questions {
 public:
  explicit Questions(Engine& engine) : engine_(engine) {}

  // Asks, and keeps the answer: what `text` makes of it, or its error.
  template <typename Result, typename Text>
  void Keep(const std::string& question, const Result& result, const Text& text) {
    FolderAnswer answer;
    if (result.ok()) {
      answer.text = text(*result);
    } else {
      answer.error = result.status();
    }
    answers_[question] = std::move(answer);
  }

  void AskItems(const std::string& collection, const std::vector<ItemId>& ids) {
    const auto text = [](const server::GetAnswer& got) {
      std::string all;
      for (const server::StoredItem& item : got.items) all += TextOfItem(item) + "\n";
      for (const ItemId& id : got.missing) all += StrCat(ToString(id), " is missing\n");
      return all;
    };
    for (const ItemId& id : ids) {
      Keep(StrCat(collection, ": item ", ToString(id)), engine_.Get(collection, {id}, 0, true, {}), text);
    }
    Keep(collection + ": all items", engine_.Get(collection, ids, 0, true, {}), text);
    for (const bool with_vector : {false, true}) {
      const std::string question = StrCat(collection, ": pages", with_vector ? " with vectors" : "");
      std::string all, token;
      absl::Status status;
      do {
        const auto page = engine_.Scroll(collection, std::nullopt, kPage, token, with_vector, {});
        status = page.status();
        if (!page.ok()) break;
        for (const server::StoredItem& item : page->items) all += TextOfItem(item) + "\n";
        token = page->token;
      } while (!token.empty());
      answers_[question] = {status, all, {}};
    }
  }

  void AskCounts(const std::string& collection) {
    const auto count = [](const server::CountAnswer& counted) {
      std::string text = StrCat(counted.count);
      for (const auto& [generation, items] : counted.by_generation) text += StrCat(" ", generation, ":", items);
      return text;
    };
    Keep(collection + ": count", engine_.Count(collection, std::nullopt, {}), count);
    const auto group = server::Leaf(server::FilterNode::Kind::kEquals, "group", {std::string("g1")});
    Keep(collection + ": count of a group", engine_.Count(collection, group, {}), count);
    server::FacetCall call;
    call.collection = collection;
    call.field = "group";
    Keep(collection + ": facet", engine_.Facet(call, {}), [](const server::FacetAnswer& facet) {
      std::string text;
      for (const auto& [value, items] : facet.values) text += StrCat(std::get<std::string>(value), ":", items, " ");
      return text;
    });
  }

  // By the vectors of all items that a generation embedded.
  void AskSearch(const std::string& collection, uint32_t generation, int dimension, const std::vector<uint64_t>& items,
                 bool exact, bool filtered) {
    server::SearchCall call = server::SearchFor({}, 3, generation);
    call.collection = collection;
    call.exact = exact;
    call.with_payload = call.with_vector = exact;
    if (filtered) call.filter = server::Leaf(server::FilterNode::Kind::kEquals, "group", {std::string("g1")});
    call.queries.clear();
    for (const uint64_t item : items) {
      call.queries.emplace_back().content = FolderVector(item, generation, dimension);
    }
    const auto answer = engine_.Search(call, {});
    FolderAnswer kept;
    kept.error = answer.status();
    for (size_t q = 0; answer.ok() && q < answer->results.size(); ++q) {
      const server::QueryAnswer& one = answer->results[q];
      kept.error.Update(one.status);
      for (const server::EngineHit& hit : one.hits) {
        kept.text += StrCat(ToString(hit.id), "@", hit.generation, hit.payload_json, BytesOf(hit.vector), " ");
        kept.numbers.push_back(hit.distance);
      }
      kept.text += "\n";
    }
    answers_[StrCat(collection, ": search by generation ", generation, exact ? ", exact" : "",
                    filtered ? ", filtered" : "")] = std::move(kept);
  }

  void AskSearches() {
    std::vector<uint64_t> old_items, new_items;
    for (uint64_t i = 1; i <= kGalleryItems; ++i) (i < kEmbeddedFrom ? old_items : new_items).push_back(i);
    for (uint64_t i = 0; i < kFewItems; ++i) new_items.push_back(kNewItem + i);
    for (uint64_t i = 0; i < kLateItems; ++i) new_items.push_back(kLateItem + i);
    for (const bool exact : {false, true}) {
      for (const bool filtered : {false, true}) {
        AskSearch(kGallery, 1, kGalleryDimension, old_items, exact, filtered);
        AskSearch(kGallery, 2, kNewDimension, new_items, exact, filtered);
      }
      AskSearch(kSmall, 1, kGalleryDimension, {1, 2, 3, 4, 5}, exact, false);
    }
  }

  void AskRollout() {
    Keep("gallery: generations", engine_.ListGenerations(kGallery),
         [](const std::vector<server::GenerationStatus>& all) {
           std::string text;
           for (const server::GenerationStatus& one : all) {
             text += StrCat(one.generation, one.has_encoder ? " encoder " : " ", one.items, " items, state ",
                            static_cast<int>(one.state), one.validation != nullptr ? ", validated; " : "; ");
           }
           return text;
         });
    for (const uint32_t generation : {1u, 2u}) {
      Keep(StrCat("gallery: generation ", generation), engine_.GetGeneration(kGallery, generation),
           [](const server::GenerationStatus& one) { return one.manifest_json; });
    }
    Keep("gallery: adapters", engine_.ListAdapters(kGallery), [](const std::vector<server::AdapterStatus>& all) {
      std::string text;
      for (const server::AdapterStatus& one : all) {
        text +=
            StrCat(one.from, "-", one.to, " version ", one.version, " bytes ", one.bytes, " crc ", one.crc32c, "; ");
      }
      return text;
    });
    Keep("gallery: probes", engine_.ListProbes(kGallery), [](const std::vector<server::ProbeSetStatus>& all) {
      std::string text;
      for (const server::ProbeSetStatus& one : all) text += StrCat(one.name, " ", one.probes, " ", one.bytes, "; ");
      return text;
    });
    Keep("gallery: audit", engine_.ListAudit(kGallery, 0), [](const std::vector<server::AuditEntry>& all) {
      std::string text;
      for (const server::AuditEntry& one : all) text += StrCat(one.generation, " ", one.reason, "; ");
      return text;
    });
    Keep("jobs", engine_.ListJobs("", "", 0, ""), [](const server::JobPage& page) {
      std::string text;
      for (const server::JobStatus& job : page.jobs) {
        text += StrCat(job.id, " ", job.kind, " ", static_cast<int>(job.state), " ", job.result_json, "; ");
      }
      return text;
    });
    Keep("gallery: input", engine_.GetInput(kGallery, ItemId{kInputItem}),
         [](const server::RawInput& input) { return BytesOf(std::get<server::TensorInput>(input).values); });
  }

  void AskCollections() {
    for (const char* const name : {kGallery, "pictures", kSmall}) {
      Keep(StrCat(name, ": collection"), engine_.GetCollection(name), [](const server::CollectionStatus& one) {
        std::string text = StrCat(one.name, " active ", one.active_generation, " items ", one.items);
        for (const std::string& alias : one.aliases) text += " alias " + alias;
        for (const auto& index : one.payload_indexes) text += " index " + index.field.path;
        return text;
      });
    }
  }

  void AskSnapshots() {
    Keep("snapshots", engine_.snapshots().List(), [](const std::vector<server::SnapshotStatus>& all) {
      std::string text;
      for (const server::SnapshotStatus& one : all) text += one.manifest.name + " ";
      return text;
    });
    Keep("snapshot verified", engine_.snapshots().Verify(kSnapshot, {}), [](const server::SnapshotStatus& one) {
      return StrCat(one.manifest.name, " sequence ", one.manifest.sequence, " files ", one.manifest.files.size());
    });
  }

  FolderAnswers Take() { return std::move(answers_); }

 private:
  Engine& engine_;
  FolderAnswers answers_;
};

// Reads what a child says until it ends. False: it says nothing more for too long.
bool ReadAll(int pipe, std::string* said) {
  char buffer[4096];
  const absl::Time limit = absl::Now() + kChildMax;
  while (true) {
    pollfd waits{pipe, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(limit - absl::Now());
    const int ready = left <= 0 ? 0 : ::poll(&waits, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(pipe, buffer, sizeof buffer);
    if (count <= 0) return count == 0;
    said->append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

std::vector<float> FolderVector(uint64_t item, uint32_t generation, int dimension) {
  std::vector<float> vector(static_cast<size_t>(dimension));
  uint64_t state = item * 0x9E3779B97F4A7C15ull + generation * 0xD1B54A32D192ED03ull + 1;
  for (float& value : vector) {
    state ^= state >> 33;
    state *= 0xFF51AFD7ED558CCDull;
    state ^= state >> 29;
    value = static_cast<float>(state >> 40) / 16'777'216.0f - 0.5f;
  }
  return vector;
}

std::string FolderPayload(uint64_t item) {
  return StrCat("{\"group\":\"g", item % 5, "\",\"item\":", item, ",\"text\":\"", std::string(20 + item, 'x'), "\"}");
}

std::string FolderName(uint64_t item) { return StrCat("name-", item); }

FolderAnswers AskFolder(Engine& engine) {
  Questions questions(engine);
  questions.AskCollections();
  questions.AskItems(kGallery, GalleryIds());
  questions.AskItems(kSmall, SmallIds());
  questions.AskCounts(kGallery);
  questions.AskSearches();
  questions.AskRollout();
  questions.AskSnapshots();
  return questions.Take();
}

FolderAnswers AskSearches(Engine& engine) {
  Questions questions(engine);
  questions.AskSearches();
  return questions.Take();
}

FolderAnswers AskEncoder(Engine& engine) {
  server::TensorInput tensor;
  tensor.shape = {1, 8, 8};
  for (int i = 0; i < 64; ++i) tensor.values.push_back(static_cast<float>(i) / 64.0f);
  server::SearchCall call = server::SearchFor({}, 3, 1);
  call.collection = kGallery;
  call.queries[0].content = server::RawInput(tensor);
  const auto answer = engine.Search(call, {});
  FolderAnswer kept;
  kept.error = answer.ok() ? answer->results[0].status : answer.status();
  if (kept.error.ok()) {
    for (const server::EngineHit& hit : answer->results[0].hits) {
      kept.text += ToString(hit.id) + " ";
      kept.numbers.push_back(hit.distance);
    }
  }
  return {{"gallery: search by an input", std::move(kept)}};
}

bool AwaitIndexChecked(Engine& engine) {
  for (const char* const name : {kGallery, kSmall}) {
    for (const absl::Time limit = absl::Now() + absl::Minutes(1);;) {
      const auto status = engine.GetCollection(name);
      if (!status.ok() || status->segments_unchecked + status->segments_damaged + status->builds_running == 0) break;
      if (absl::Now() > limit) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  return true;
}

std::string CompareAnswers(const FolderAnswer& truth, const FolderAnswer& answer) {
  if (truth.text != answer.text) {
    size_t at = 0;
    while (at < truth.text.size() && at < answer.text.size() && truth.text[at] == answer.text[at]) ++at;
    const size_t from = at < 60 ? 0 : at - 60;
    return StrCat("'...", answer.text.substr(from, 120), "...' in place of '...", truth.text.substr(from, 120), "...'");
  }
  if (truth.numbers.size() != answer.numbers.size()) return "another number of distances";
  for (size_t i = 0; i < truth.numbers.size(); ++i) {
    if (std::abs(truth.numbers[i] - answer.numbers[i]) <= kDistanceError) continue;
    return StrCat("distance ", answer.numbers[i], " in place of ", truth.numbers[i]);
  }
  return "";
}

std::string EncodeAnswers(const FolderAnswers& answers) {
  auto json = nlohmann::json::object();
  for (const auto& [question, answer] : answers) {
    if (answer.error.ok()) json[question] = {{"text", answer.text}, {"numbers", answer.numbers}};
  }
  return json.dump();
}

FolderAnswers DecodeAnswers(const std::string& text) {
  FolderAnswers answers;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return answers;
  for (const auto& [question, answer] : json.items()) {
    answers[question] = {absl::OkStatus(), answer["text"], answer["numbers"].get<std::vector<double>>()};
  }
  return answers;
}

server::EngineOptions FolderOptions(const std::string& folder) {
  server::EngineOptions options = server::OptionsFor(folder);
  options.store.memory_bytes = 16 << 20;
  options.store.reserve_bytes = 0;
  return options;
}

ChildEnd RunInChild(const std::function<std::string()>& body) {
  ChildEnd end;
  int pipes[2];
  if (::pipe(pipes) != 0) return {false, "no pipe", ""};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipes[0]);
    const std::string said = body();
    for (size_t at = 0; at < said.size();) {
      const ssize_t count = ::write(pipes[1], said.data() + at, said.size() - at);
      if (count <= 0) ::_exit(126);
      at += static_cast<size_t>(count);
    }
    ::_exit(0);
  }
  ::close(pipes[1]);
  const bool in_time = child > 0 && ReadAll(pipes[0], &end.said);
  ::close(pipes[0]);
  if (child > 0 && !in_time) ::kill(child, SIGKILL);
  int status = 0;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
  end.exited = ended && in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  end.how = !in_time              ? StrCat("no answer within ", absl::FormatDuration(kChildMax))
            : !ended              ? "it cannot be waited for"
            : WIFSIGNALED(status) ? StrCat("signal ", WTERMSIG(status))
                                  : StrCat("exit status ", WEXITSTATUS(status));
  return end;
}

bool WriteFolderInChild(const std::string& folder) {
  ::setenv(kWriteFolderVariable, folder.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "damage_test", "--gtest_filter=DataFolderWriter.*", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::unsetenv(kWriteFolderVariable);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace lightcone
