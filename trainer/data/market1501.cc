#include <charconv>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"

namespace lightcone {
namespace {

constexpr int kHeight = 256, kWidth = 128;
constexpr int64_t kPersonMax = 9'999'999;
constexpr int32_t kCameraMax = 1'000'000;

struct Person {
  std::string path;
  MarketName name;
};

// The files of one of the three folders without junk, which is counted.
absl::StatusOr<std::vector<Person>> ListPersons(const std::string& home, const std::string& folder, int64_t* junk) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListFolder(StrCat(home, "/", folder)));
  std::vector<Person> persons;
  for (const std::string& entry : entries) {
    if (!entry.ends_with(".jpg") && !entry.ends_with(".png")) continue;  // the release contains Thumbs.db
    const absl::StatusOr<MarketName> name = ParseMarketName(entry);
    if (!name.ok()) return Annotate(name.status(), StrCat(home, "/", folder));
    if (name->person < 0) {
      ++*junk;
      continue;
    }
    persons.push_back({StrCat(folder, "/", entry), *name});
  }
  return persons;
}

// Refuses a distractor among queries or training images: the set was unpacked wrongly.
absl::Status RefuseDistractors(const std::vector<Person>& persons) {
  for (const Person& person : persons) {
    if (person.name.person > 0) continue;
    return InvalidField("person", StrCat("0 in '", person.path, "'"), "above 0 (distractors lie in bounding_box_test)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MarketName> ParseMarketName(std::string_view file_name) {
  const char* at = file_name.data();
  const char* const end = at + file_name.size();
  MarketName name;
  const auto number = [&](auto* value) {
    const auto [next, error] = std::from_chars(at, end, *value);
    at = next;
    return error == std::errc();
  };
  const auto text = [&](std::string_view wanted) {
    if (!std::string_view(at, static_cast<size_t>(end - at)).starts_with(wanted)) return false;
    at += wanted.size();
    return true;
  };
  int32_t sequence = 0;
  const bool ok = number(&name.person) && text("_c") && number(&name.camera) && text("s") && number(&sequence);
  if (ok && name.person >= -1 && name.person <= kPersonMax && name.camera >= 1 && name.camera <= kCameraMax)
    return name;
  return InvalidField("file name", StrCat("'", file_name, "'"),
                      "PERSON_cCAMERAsSEQUENCE_..., as 0002_c1s1_000451_03.jpg");
}

absl::StatusOr<ListedDataset> OpenMarket1501(const std::string& folder) {
  const std::string home = UnpackedFolder(folder, "Market-1501-v15.09.15");
  int64_t junk = 0;
  LC_ASSIGN_OR_RETURN(const std::vector<Person> train, ListPersons(home, "bounding_box_train", &junk));
  LC_ASSIGN_OR_RETURN(const std::vector<Person> gallery, ListPersons(home, "bounding_box_test", &junk));
  LC_ASSIGN_OR_RETURN(const std::vector<Person> queries, ListPersons(home, "query", &junk));
  LC_RETURN_IF_ERROR(RefuseDistractors(train));
  LC_RETURN_IF_ERROR(RefuseDistractors(queries));
  ListedDataset listed;
  listed.height = kHeight;
  listed.width = kWidth;
  listed.single_images = true;  // distractors may appear once
  listed.class_names.emplace(0, "distractors");
  listed.protocol.emplace();
  listed.test.emplace();
  std::vector<std::string> paths;
  const auto add = [&](const std::vector<Person>& persons, ListedImages* images) {
    for (const Person& person : persons) images->AddPath(person.path, person.name.person, &paths);
  };
  add(train, &listed.train);
  for (const std::vector<Person>* part : {&gallery, &queries}) {
    std::vector<int64_t>& rows = part == &gallery ? listed.protocol->gallery : listed.protocol->queries;
    for (const Person& person : *part) {
      rows.push_back(static_cast<int64_t>(listed.protocol->cameras.size()));
      listed.protocol->cameras.push_back(person.name.camera);
    }
    add(*part, &*listed.test);
  }
  if (queries.empty()) return InvalidField(StrCat(home, "/query: images"), "0", "at least 1");
  if (junk > 0) listed.notes = StrCat(junk, " junk images left out");
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(home, std::move(paths)));
  return listed;
}

}  // namespace lightcone
