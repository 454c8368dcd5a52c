// The log of the store ends early, at any byte of its last record: the write is there as a whole, or it is not there at
// all. A write that was acknowledged as durable is not lost without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/repair.h"
#include "spdlog/spdlog.h"
#include "tests/engine/engine_testing.h"
#include "tests/system/data_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using server::Engine;

constexpr uint64_t kCutStep = 199;    // every byte would take minutes; LIGHTCONE_LOG_CUT_STEP says otherwise
constexpr uint64_t kEdgeBytes = 2;    // at both ends of a record, where each byte is cut
constexpr uint64_t kRepairStep = 16;  // of the refused folders

struct LogWrite {
  const char* name;
  std::function<absl::Status(Engine&)> run;
};

absl::Status UpsertThree(Engine& engine) {
  std::vector<server::UpsertItem> items;
  for (uint64_t i = 0; i < kLateItems; ++i) {
    const uint64_t content = 400 + i;
    items.push_back(
        server::ItemOf(ItemId{kLateItem + i}, FolderVector(content, 2, kNewDimension), FolderPayload(content)));
  }
  server::UpsertBatch batch = server::BatchOf(std::move(items), 2);
  batch.collection = kGallery;
  return engine.Upsert(std::move(batch), {}).status();
}

absl::Status PatchTwo(Engine& engine) {
  server::ChangePayloadCall call;
  call.collection = kGallery;
  call.payload_json = "{\"group\":\"g9\"}";
  call.ids = {ItemId{uint64_t{4}}, ItemId{uint64_t{5}}};
  return engine.ChangePayload(call, {}).status();
}

absl::Status RollBack(Engine& engine) {
  server::SwitchCall call;
  call.collection = kGallery;
  call.force = true;
  call.reason = "back";
  return engine.RollbackGeneration(call).status();
}

const std::vector<LogWrite>& Writes() {
  static const std::vector<LogWrite> writes = {
      {"upsert", UpsertThree},
      {"delete",
       [](Engine& engine) {
         const std::vector<ItemId> ids = {ItemId{uint64_t{1}}, ItemId{kNewItem}, ItemId{FolderName(1)}};
         return engine.Delete(kGallery, ids, Durability::kDurable, {}).status();
       }},
      {"payload", PatchTwo},
      {"rollback", RollBack},
  };
  return writes;
}

fs::path NewestLog(const std::string& data) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(data + "/store")) {
    if (entry.path().extension() == ".log" && entry.path().filename() > newest.filename()) newest = entry.path();
  }
  return newest;
}

class LogCut : public testing::Test {
 protected:
  // A folder as it was when a write was acknowledged.
  struct Image {
    std::string folder, synced_before;
    uint64_t begin = 0, end = 0;  // of the last record in its log
    FolderAnswers before, after;
  };

  void SetUp() override {
    const std::string data = folder_ / "data";
    ASSERT_TRUE(WriteFolderInChild(data));
    const ChildEnd written = RunInChild([&] { return WriteImages(data); });
    ASSERT_TRUE(written.exited) << written.how;
    ASSERT_EQ(written.said, "");
    for (size_t i = 0; i < Writes().size(); ++i) {
      Image& image = images_.emplace_back();
      image.folder = StrCat(folder_.path(), "/image-", i);
      image.synced_before = ReadFile(StrCat(image.folder, ".synced")).value();
      image.before = DecodeAnswers(ReadFile(StrCat(image.folder, ".before")).value());
      image.after = DecodeAnswers(ReadFile(StrCat(image.folder, ".after")).value());
      image.begin = std::stoull(ReadFile(StrCat(image.folder, ".begin")).value());
      image.end = fs::file_size(NewestLog(image.folder));
      ASSERT_GT(image.end, image.begin) << Writes()[i].name;
      ASSERT_FALSE(Same(image.before, image.after)) << Writes()[i].name;
    }
  }

  // Empty, or what failed.
  std::string WriteImages(const std::string& data) const {
    spdlog::set_level(spdlog::level::off);
    const auto engine = Engine::Open(FolderOptions(data));
    if (!engine.ok()) return engine.status().ToString();
    if (!AwaitIndexChecked(**engine)) return "the index is not checked";
    for (size_t i = 0; i < Writes().size(); ++i) {
      const std::string image = StrCat(folder_.path(), "/image-", i);
      const auto keep = [&](const char* what, const std::string& bytes) {
        return WriteFileAtomically(StrCat(image, what), bytes).ok();
      };
      bool kept = keep(".before", EncodeAnswers(AskFolder(**engine)));
      kept &= keep(".synced", ReadFile(data + "/store/SYNCED").value());
      kept &= keep(".begin", StrCat(fs::file_size(NewestLog(data))));
      const absl::Status done = Writes()[i].run(**engine);
      if (!done.ok() || !kept) return StrCat(Writes()[i].name, ": ", done.ToString());
      fs::copy(data, image, fs::copy_options::recursive);
      if (!keep(".after", EncodeAnswers(AskFolder(**engine)))) return "no room";
    }
    return "";
  }

  static bool Same(const FolderAnswers& truth, const FolderAnswers& answers) {
    if (truth.size() != answers.size()) return false;
    for (const auto& [question, answer] : answers) {
      if (!answer.error.ok() || !CompareAnswers(truth.at(question), answer).empty()) return false;
    }
    return true;
  }
  // What a folder holds: "before", "after", "neither", or why it does not open.
  static std::string Holds(const std::string& data, const Image& image) {
    spdlog::set_level(spdlog::level::off);
    const auto engine = Engine::Open(FolderOptions(data));
    if (!engine.ok()) return engine.status().ToString();
    const FolderAnswers answers = AskFolder(**engine);
    if (Same(image.after, answers)) return "after";
    return Same(image.before, answers) ? "before" : "neither";
  }
  std::string HoldsInChild(const std::string& data, const Image& image) {
    const ChildEnd end = RunInChild([&] { return Holds(data, image); });
    return end.exited ? end.said : end.how;
  }

  // A copy of the image whose log ends at this byte.
  std::string CutAt(const Image& image, uint64_t bytes) {
    const std::string cut = folder_ / "cut";
    fs::remove_all(cut);
    fs::copy(image.folder, cut, fs::copy_options::recursive);
    fs::resize_file(NewestLog(cut), bytes);
    return cut;
  }
  static std::vector<uint64_t> Cuts(const Image& image) {
    const char* const text = std::getenv("LIGHTCONE_LOG_CUT_STEP");
    const uint64_t step = text == nullptr ? kCutStep : std::max<uint64_t>(1, std::strtoull(text, nullptr, 10));
    std::vector<uint64_t> cuts;
    for (uint64_t at = image.begin; at < image.end; ++at) {
      const bool edge = at - image.begin < kEdgeBytes || image.end - at <= kEdgeBytes;
      if (edge || (at - image.begin) % step == 0) cuts.push_back(at);
    }
    return cuts;
  }

  TemporaryFolder folder_;
  std::vector<Image> images_;
};

TEST_F(LogCut, OfAWriteThatIsNotKnownToBeSyncedLeavesTheStateBeforeIt) {
  for (size_t i = 0; i < images_.size(); ++i) {
    const Image& image = images_[i];
    EXPECT_EQ(HoldsInChild(CutAt(image, image.end), image), "after") << Writes()[i].name;
    for (const uint64_t at : Cuts(image)) {
      const std::string cut = CutAt(image, at);
      ASSERT_TRUE(WriteFileAtomically(cut + "/store/SYNCED", image.synced_before).ok());
      EXPECT_EQ(HoldsInChild(cut, image), "before")
          << Writes()[i].name << ", " << at - image.begin << " of " << image.end - image.begin << " bytes";
    }
  }
}

TEST_F(LogCut, OfAnAcknowledgedWriteIsRefusedAndCanBeRepaired) {
  uint64_t cuts = 0;
  for (size_t i = 0; i < images_.size(); ++i) {
    const Image& image = images_[i];
    for (const uint64_t at : Cuts(image)) {
      SCOPED_TRACE(StrCat(Writes()[i].name, ", ", at - image.begin, " of ", image.end - image.begin, " bytes"));
      const std::string cut = CutAt(image, at);
      for (int start = 0; start < 2; ++start) {  // A refused start leaves the damage as it found it.
        const std::string refused = HoldsInChild(cut, image);
        EXPECT_TRUE(absl::StartsWith(refused, "DATA_LOSS")) << refused;
        EXPECT_THAT(refused, testing::HasSubstr("were acknowledged as durable"));
      }
      if (cuts++ % kRepairStep != 0) continue;
      const std::string saved = folder_ / "saved";
      const ChildEnd end = RunInChild([&] {
        const auto report = server::RepairDataFolder(cut, saved);
        if (!report.ok()) return report.status().ToString();
        return report->damage.empty() ? std::string("names nothing") : report->damage.front();
      });
      EXPECT_TRUE(end.exited) << end.how;
      EXPECT_THAT(end.said, testing::HasSubstr(NewestLog(cut).filename().string()));
      const auto count = [&](const FolderAnswers& state) { return state.at("gallery: all items").text; };
      const ChildEnd opened = RunInChild([&] {
        const auto engine = Engine::Open(FolderOptions(saved));
        return engine.ok() ? AskFolder(**engine).at("gallery: all items").text : engine.status().ToString();
      });
      EXPECT_TRUE(opened.exited) << opened.how;
      EXPECT_EQ(opened.said, count(image.before));
      fs::remove_all(saved);
    }
  }
  std::printf("%llu cuts of %zu writes\n", static_cast<unsigned long long>(cuts), images_.size());
}

}  // namespace
}  // namespace lightcone
