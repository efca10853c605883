// Names for what a screen reader meets on Great Expectations' pages: filters above tables, and tabs.
$(function () {
  function name(table) {
    $(table).closest(".bootstrap-table").find("th[data-field]").each(function () {
      const title = $(this).find(".th-inner").text().trim();
      $(this).find("input, select").attr("aria-label", "Filter by " + title);
    });
  }
  $("[role=tablist] > li").attr("role", "presentation");
  $(".search-input, .search input").not("th *").attr("aria-label", "Search");
  $("table").each(function () { name(this); }).on("post-header.bs.table post-body.bs.table", function () { name(this); });
});
