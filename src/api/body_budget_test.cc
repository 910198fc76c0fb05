#include "api/body_budget.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace exo::api {
namespace {

TEST(BodyBudget, GivesNoMoreThanThereIsAndTakesItBack) {
  BodyBudget budget(100);
  BodyBudget::Share first(budget);
  EXPECT_TRUE(first.take(60));
  {
    BodyBudget::Share second(budget);
    EXPECT_TRUE(second.take(40));
    EXPECT_EQ(budget.left(), 0U);
    EXPECT_FALSE(second.take(1));
    EXPECT_TRUE(second.take(0));
  }
  EXPECT_EQ(budget.left(), 40U);
  EXPECT_FALSE(first.take(std::numeric_limits<std::uint64_t>::max())) << "and nothing was taken";
  EXPECT_EQ(budget.left(), 40U);
}

}  // namespace
}  // namespace exo::api
