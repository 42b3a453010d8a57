package api

import (
	"maps"
	"slices"

	"executor/reconcile"
)

func writeReport(w *jsonWriter, p reconcile.Report) {
	w.begin('{')
	w.text("id", p.ID.String())
	w.text("upstream", p.Upstream)
	w.optional("operation", p.Operation)
	w.text("format", string(p.Format))
	w.labels("columns", p.Columns)
	w.object("states", func() {
		for _, word := range slices.Sorted(maps.Keys(p.States)) {
			w.element()
			w.string(word)
			w.buf = append(w.buf, ':')
			w.string(string(p.States[word]))
		}
	})
	w.array("compare", len(p.Compare), func(i int) {
		w.begin('{')
		w.text("column", p.Compare[i].Column)
		w.text("field", p.Compare[i].Field)
		w.end('}')
	})
	w.timeOrNull("from", p.From)
	w.timeOrNull("until", p.Until)
	w.text("settles_for", p.SettlesFor.String())
	w.time("created_at", p.CreatedAt)
	w.text("created_by", p.CreatedBy)
	w.text("state", string(p.State))
	w.optional("problem", p.Problem)
	w.integer("bytes", p.Bytes)
	w.hex("sha256", p.SHA256)
	w.integer("lines", int64(p.Lines))
	w.integer("compared", int64(p.Compared))
	w.integer("scanned", p.Scanned)
	w.timeOrNull("compared_at", p.ComparedAt)
	writeReportCounts(w, p)
	w.timeOrNull("apply_asked_at", p.ApplyAskedAt)
	w.optional("apply_asked_by", p.ApplyAskedBy)
	w.optional("apply_reason", p.ApplyReason)
	w.timeOrNull("applied_at", p.AppliedAt)
	w.end('}')
}

func writeReportCounts(w *jsonWriter, p reconcile.Report) {
	w.object("counts", func() {
		w.integer("matched", int64(p.Counts.Matched))
		w.integer("different", int64(p.Counts.Different))
		w.integer("missing_here", int64(p.Counts.MissingHere))
		w.integer("duplicate", int64(p.Counts.Duplicate))
		w.integer("ambiguous", int64(p.Counts.Ambiguous))
		w.integer("unreadable", int64(p.Counts.Unreadable))
		w.integer("too_young", int64(p.Counts.TooYoung))
		w.integer("missing_there", int64(p.Counts.MissingThere))
		w.integer("young_there", int64(p.Counts.YoungThere))
	})
	w.object("effects", func() {
		w.integer("settled", int64(p.Effects.Settled))
		w.integer("kept", int64(p.Effects.Kept))
		w.integer("conflicts", int64(p.Effects.Conflicts))
		w.integer("none", int64(p.Effects.None))
	})
}

func writeReportItem(w *jsonWriter, item reconcile.ReportItem) {
	w.begin('{')
	w.integer("number", int64(item.Number))
	w.integerOrNull("line", int64(item.Line))
	w.text("kind", string(item.Kind))
	w.idOrNull("command_id", item.CommandID)
	w.optional("reference", item.Reference)
	w.optional("key", item.Key)
	w.optional("word", item.Word)
	w.optional("finding", string(item.Finding))
	w.optional("state", string(item.State))
	w.array("differences", len(item.Differences), func(i int) {
		w.begin('{')
		w.text("field", item.Differences[i].Field)
		w.text("ours", item.Differences[i].Ours)
		w.text("theirs", item.Differences[i].Theirs)
		w.end('}')
	})
	w.integerOrNull("duplicate_of", int64(item.DuplicateOf))
	w.optional("problem", item.Problem)
	w.rawOrNull("content", item.Content)
	w.optional("effect", string(item.Effect))
	w.timeOrNull("applied_at", item.AppliedAt)
	w.end('}')
}
