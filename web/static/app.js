// What script adds to pages that work without it: live regions, keys, copying,
// local times, selecting many.
(() => {
	"use strict";
	const root = document.documentElement;
	root.classList.add("js");
	const all = (selector, within = document) => [...within.querySelectorAll(selector)];
	const one = (selector) => document.querySelector(selector);

	// Times: the reader's own in the title.
	const local = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
	const tellTimes = () => {
		for (const t of all("time[datetime]:not([data-told])")) {
			const at = new Date(t.dateTime);
			if (isNaN(at)) continue;
			t.title = local.format(at) + (t.title ? "\n" + t.title : "");
			t.dataset.told = "";
		}
	};

	// Copying.
	document.addEventListener("click", async (event) => {
		const button = event.target.closest("[data-copy], [data-copy-from]");
		if (!button) return;
		const from = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
		try {
			await navigator.clipboard.writeText(from ? from.textContent : button.dataset.copy);
			say("Copied.");
			button.textContent = "copied";
		} catch {
			button.textContent = "cannot copy";
		}
		setTimeout(() => { button.textContent = "copy"; }, 2000);
	});

	// A line for who cannot see what changed.
	let voice;
	const say = (text) => {
		if (!voice) {
			voice = document.createElement("div");
			voice.className = "sr-only";
			voice.setAttribute("role", "status");
			document.body.append(voice);
		}
		voice.textContent = text;
	};

	// Live regions: <div id="live" data-live-topic="…"> is fetched again and morphed
	// whenever the server says that something changed. Nobody's typing is disturbed:
	// while a field of the region has the focus it waits.
	let source, waiting = false, paused = sessionStorage.getItem("paused") === "yes";
	const region = () => one("[data-live-topic]");
	const show = (state, text) => {
		for (const el of all("[data-live]")) {
			el.dataset.live = state;
			const line = el.querySelector("[data-live-text]");
			if (line && line.textContent !== text) line.textContent = text;
			const toggle = el.querySelector("[data-live-toggle]");
			if (toggle) {
				toggle.textContent = paused ? "Go on" : "Pause";
				toggle.setAttribute("aria-pressed", String(paused));
			}
		}
	};
	const typing = () => {
		const el = document.activeElement, live = region();
		return live && (live.contains(el) && el.matches("input, textarea, select") || live.querySelector("input[data-item]:checked"));
	};
	const refresh = async () => {
		const live = region();
		if (!live || paused || document.hidden) { waiting = true; return; }
		if (typing()) { waiting = true; return; }
		waiting = false;
		live.dispatchEvent(new CustomEvent("changed", { bubbles: false }));
	};
	const listen = () => {
		const live = region();
		if (!live) return;
		if (paused) { show("off", "Paused"); return; }
		source = new EventSource("/live?" + new URLSearchParams({ topic: live.dataset.liveTopic, seen: live.dataset.liveSeen || "" }));
		source.addEventListener("open", () => show("on", "Live"));
		source.addEventListener("changed", refresh);
		source.addEventListener("over", () => { source.close(); show("off", "Not live"); });
		source.addEventListener("error", () => show("off", source.readyState === 2 ? "Not live: reload the page" : "Connecting again"));
	};
	document.addEventListener("click", (event) => {
		if (!event.target.closest("[data-live-toggle]")) return;
		paused = !paused;
		sessionStorage.setItem("paused", paused ? "yes" : "no");
		if (source) source.close();
		listen();
		if (!paused) refresh();
	});
	document.addEventListener("focusout", () => { if (waiting) setTimeout(refresh, 0); });
	document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) refresh(); });
	document.addEventListener("htmx:after:swap", () => { tellTimes(); show(paused ? "off" : "on", paused ? "Paused" : "Live"); mark(); });

	// Lists: j and k move, Enter opens, x selects.
	let at = -1;
	const rows = () => all("[data-row]");
	const mark = () => rows().forEach((row, i) => { row.setAttribute("aria-selected", String(i === at)); });
	const move = (by) => {
		const list = rows();
		if (!list.length) return;
		at = Math.max(0, Math.min(list.length - 1, at + by));
		mark();
		const link = list[at].querySelector("a[data-open]") || list[at].querySelector("a");
		if (link) link.focus({ preventScroll: true });
		list[at].scrollIntoView({ block: "nearest" });
	};
	document.addEventListener("focusin", (event) => {
		const row = event.target.closest("[data-row]");
		if (!row) return;
		at = rows().indexOf(row);
		mark();
	});

	// Selecting many.
	const count = (form) => {
		const boxes = all("input[data-item]", form), chosen = boxes.filter((b) => b.checked).length;
		for (const el of all("[data-chosen]", form)) el.textContent = String(chosen);
		const every = form.querySelector("input[data-all]");
		if (every) { every.checked = chosen > 0 && chosen === boxes.length; every.indeterminate = chosen > 0 && chosen < boxes.length; }
	};
	document.addEventListener("change", (event) => {
		const form = event.target.form;
		if (!form || !event.target.matches("input[data-item], input[data-all]")) return;
		if (event.target.matches("[data-all]")) for (const b of all("input[data-item]", form)) b.checked = event.target.checked;
		count(form);
	});

	// Keys. None of them acts: they only move and open.
	const busy = (el) => el && el.closest("input, textarea, select, [contenteditable]");
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		if (event.key === "Escape" && busy(event.target)) { event.target.blur(); return; }
		if (busy(event.target) && event.target.type !== "checkbox") return;
		const does = {
			"/": () => { const f = one("#find"); f.focus(); f.select(); },
			j: () => move(1),
			k: () => move(at < 0 ? 1 : -1),
			x: () => { const box = at >= 0 && rows()[at].querySelector("input[data-item]"); if (box) box.click(); },
			a: () => { const go = (at >= 0 && rows()[at] && rows()[at].querySelector("[data-key=a]")) || one("[data-key=a]"); if (go) { go.scrollIntoView({ block: "nearest" }); go.focus(); } },
			g: () => { location.href = "/"; },
			r: () => { location.href = "/reviews"; },
			"?": () => { const h = one("#keys-help"); if (h) h.showModal(); },
		}[event.key];
		if (!does) return;
		event.preventDefault();
		does();
	});

	const start = () => {
		tellTimes();
		for (const form of all("form")) if (form.querySelector("input[data-item]")) count(form);
		listen();
	};
	addEventListener("pagehide", () => { if (source) source.close(); });
	if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
