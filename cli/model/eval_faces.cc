#include "cli/model/eval_faces.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "cli/table.h"
#include "trainer/evaluate.h"
#include "trainer/evaluate_faces.h"

namespace lightcone::cli {
namespace {

constexpr std::array<double, 6> kFar = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
constexpr std::array<double, 2> kFpir = {1e-2, 1e-1};

// Templates by one model, all of them, in the order of the lists.
struct Templates {
  std::vector<float> z;
  int dimension = 0;
  double clip_radius = 1;
};

absl::StatusOr<Templates> EmbedTemplates(const Encoder& encoder, const FaceLists& lists) {
  LC_ASSIGN_OR_RETURN(const std::vector<float> z, EmbedSplit(encoder, lists.images));
  return Templates{PoolTemplates(z, encoder.dimension(), lists.images.labels, lists.media, lists.templates),
                   encoder.dimension(), encoder.manifest().clip_radius};
}

// The rows of `subjects`, with their subjects as labels.
struct Enrolled {
  std::vector<float> z;
  std::vector<int32_t> labels;
  double clip_radius = 1;

  LabelledEmbeddings Side() const { return {z, labels, clip_radius}; }
};

Enrolled RowsOf(const Templates& templates, const std::vector<TemplateSubject>& subjects,
                std::map<int64_t, int32_t>* numbers) {
  Enrolled out;
  out.clip_radius = templates.clip_radius;
  const size_t d = static_cast<size_t>(templates.dimension);
  for (const TemplateSubject& one : subjects) {
    const auto row = std::span(templates.z).subspan(static_cast<size_t>(one.template_id) * d, d);
    out.z.insert(out.z.end(), row.begin(), row.end());
    out.labels.push_back(numbers->try_emplace(one.subject_id, static_cast<int32_t>(numbers->size())).first->second);
  }
  return out;
}

absl::StatusOr<FaceSearch> SearchFaces(const RetrievalSpace& space, const Enrolled& probes, const Enrolled& gallery,
                                       std::string name) {
  FaceSearch search{std::move(name), false, {}};
  const bool all_enrolled = std::all_of(probes.labels.begin(), probes.labels.end(), [&](int32_t label) {
    return std::find(gallery.labels.begin(), gallery.labels.end(), label) != gallery.labels.end();
  });
  const Impostors impostors = all_enrolled ? Impostors::kAllOtherPairs : Impostors::kNonMatedProbes;
  LC_ASSIGN_OR_RETURN(search.figures, EvaluateIdentification(space, probes.Side(), gallery.Side(), kFpir, impostors));
  search.open_set = !all_enrolled;
  return search;
}

std::string ImpostorsName(const FaceSearch& search) {
  return search.open_set ? "probes not enrolled" : "all other pairs";
}

OrderedJson PointsJson(const IdentificationFigures& figures) {
  OrderedJson points = OrderedJson::array();
  for (const IdentificationPoint& p : figures.points)
    points.push_back({{"fpir_wanted", p.fpir_wanted}, {"fpir", p.fpir}, {"tpir", p.tpir}});
  return points;
}

}  // namespace

absl::StatusOr<FaceFigures> MeasureFaces(const Encoder& query, const Encoder& gallery, const FaceLists& lists) {
  const RetrievalSpace space = {
      .metric = query.manifest().metric, .curvature = query.manifest().curvature, .dimension = gallery.dimension()};
  LC_ASSIGN_OR_RETURN(Templates asked, EmbedTemplates(query, lists));
  Templates kept = asked;  // hours of one model are not spent twice
  if (query.manifest().encoder_crc32c != gallery.manifest().encoder_crc32c) {
    LC_ASSIGN_OR_RETURN(kept, EmbedTemplates(gallery, lists));
    asked.z = FirstNumbers(asked.z, asked.dimension, kept.dimension);
    asked.dimension = kept.dimension;
  }
  const std::vector<int32_t> unread(static_cast<size_t>(lists.templates), 0);
  FaceFigures figures;
  LC_ASSIGN_OR_RETURN(figures.verification, EvaluatePairs(space, {asked.z, unread, asked.clip_radius},
                                                          {kept.z, unread, kept.clip_radius}, lists.pairs, kFar));
  std::map<int64_t, int32_t> numbers;
  std::vector<TemplateSubject> both = lists.gallery_1;
  both.insert(both.end(), lists.gallery_2.begin(), lists.gallery_2.end());
  const Enrolled probes = RowsOf(asked, lists.probes, &numbers);
  for (const auto& [name, subjects] : {std::pair{"1", &lists.gallery_1}, {"2", &lists.gallery_2}, {"1 and 2", &both}}) {
    LC_ASSIGN_OR_RETURN(FaceSearch search, SearchFaces(space, probes, RowsOf(kept, *subjects, &numbers), name));
    figures.searches.push_back(std::move(search));
  }
  return figures;
}

OrderedJson FacesJson(const FaceFigures& figures) {
  OrderedJson points = OrderedJson::array(), searches = OrderedJson::array();
  for (const VerificationPoint& p : figures.verification.points)
    points.push_back({{"far_wanted", p.far_wanted}, {"far", p.far}, {"tar", p.tar}});
  for (const FaceSearch& search : figures.searches) {
    searches.push_back({{"gallery", search.gallery},
                        {"impostors", ImpostorsName(search)},
                        {"mated", search.figures.mated},
                        {"non_mated", search.figures.non_mated},
                        {"points", PointsJson(search.figures)}});
  }
  return {{"verification",
           {{"genuine", figures.verification.genuine},
            {"impostor", figures.verification.impostor},
            {"points", std::move(points)}}},
          {"identification", std::move(searches)}};
}

std::string FacesText(const FaceFigures& figures) {
  Table pairs({"FAR", "TAR"});
  for (const VerificationPoint& p : figures.verification.points)
    pairs.Add({absl::StrFormat("%g", p.far_wanted), Number(p.tar)});
  Table searches({"gallery", "probes enrolled", "impostors", "FPIR", "TPIR"});
  for (const FaceSearch& search : figures.searches) {
    for (const IdentificationPoint& p : search.figures.points) {
      searches.Add({search.gallery, Grouped(static_cast<uint64_t>(search.figures.mated)), ImpostorsName(search),
                    absl::StrFormat("%g", p.fpir_wanted), Number(p.tpir)});
    }
  }
  return StrCat("verification, ", Grouped(static_cast<uint64_t>(figures.verification.genuine)), " genuine and ",
                Grouped(static_cast<uint64_t>(figures.verification.impostor)), " impostor pairs\n", pairs.Text(),
                "identification\n", searches.Text());
}

}  // namespace lightcone::cli
