#include "app/progress.h"

#include <gtest/gtest.h>

namespace exo::app {
namespace {

TEST(ProgressLine, ShowsTheShare) {
  EXPECT_EQ(progress_line("loading m", 25, 100, 8), "loading m [##------] 25% of 100 B");
  EXPECT_EQ(progress_line("loading m", 0, 100, 4), "loading m [----] 0% of 100 B");
}

TEST(ProgressLine, MoreThanAllIsAll) {
  EXPECT_EQ(progress_line("loading m", 300, 100, 4), "loading m [####] 100% of 100 B");
}

TEST(ProgressLine, AnUnknownTotalShowsWhatIsDone) {
  EXPECT_EQ(progress_line("loading m", 300, 0), "loading m 300 B");
}

}  // namespace
}  // namespace exo::app
