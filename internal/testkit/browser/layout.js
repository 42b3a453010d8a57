// Finds what does not fit on a page; runs inside of it, after kit.js.
const layout = (() => {
  const slack = 1; // px, for fractions
  const controls = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [tabindex]:not([tabindex^="-"])';
  const root = document.documentElement;

  const ancestors = function* (element) {
    for (let e = element.parentElement; e; e = e.parentElement) yield e;
  };
  const hides = (element, axis) => ['hidden', 'clip'].includes(getComputedStyle(element)[`overflow${axis}`]);
  const scrolls = (element) => ['auto', 'scroll'].includes(getComputedStyle(element).overflowX);

  // forReaders tells of text that is hidden from eyes on purpose.
  const forReaders = (element) => {
    const box = element.getBoundingClientRect();
    return box.width <= 1 || box.height <= 1 || box.right <= 0 || box.bottom + scrollY <= 0;
  };

  const tooWide = () => {
    if (root.scrollWidth <= root.clientWidth + slack) return [];
    const wide = [...document.body.querySelectorAll('*')].filter((e) =>
      kit.seen(e) && e.getBoundingClientRect().right > root.clientWidth + slack && ![...ancestors(e)].some((a) => a !== document.body && scrolls(a)));
    const innermost = wide.filter((e) => !wide.some((other) => other !== e && e.contains(other)));
    return [`the page is ${root.scrollWidth} px wide, its viewport ${root.clientWidth}: ${innermost.slice(0, 5).map(kit.describe).join(', ')}`];
  };

  // Allowed are elements with the class clip, and an ellipsis whose whole text
  // is in the title.
  const clipped = () => {
    const found = [];
    for (const e of document.body.querySelectorAll('*')) {
      if (!kit.seen(e) || forReaders(e) || !e.textContent.trim() || e.matches('.clip, svg, svg *, input, select')) continue;
      if ([...ancestors(e)].some(forReaders)) continue;
      const style = getComputedStyle(e);
      const byTitle = style.textOverflow === 'ellipsis' && e.title;
      if (hides(e, 'X') && !byTitle && e.scrollWidth > e.clientWidth + slack)
        found.push(`${kit.describe(e)} cuts its text: ${e.scrollWidth} px in ${e.clientWidth}`);
      if (hides(e, 'Y') && e.scrollHeight > e.clientHeight + slack)
        found.push(`${kit.describe(e)} cuts its text: ${e.scrollHeight} px high in ${e.clientHeight}`);
    }
    return found;
  };

  // beyond finds text that begins to the left of the page, where nobody can
  // scroll to.
  const beyond = () => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !kit.seen(parent)) continue;
      range.selectNodeContents(walker.currentNode);
      const box = range.getBoundingClientRect();
      if (box.left + scrollX < -slack && box.right > 0) found.push(`${kit.describe(parent)} begins ${-box.left} px left of the page`);
    }
    return found;
  };

  // boxes are the parts of an element that can be hit, without what its
  // scrolling or hiding ancestors leave out.
  const boxes = (element) => [...element.getClientRects()].map((r) => {
    const box = { left: r.left, right: r.right, top: r.top, bottom: r.bottom };
    for (const a of ancestors(element)) {
      const style = getComputedStyle(a);
      if (a === root || a === document.body || style.display === 'inline') continue;
      const outer = a.getBoundingClientRect();
      if (style.overflowX !== 'visible') { box.left = Math.max(box.left, outer.left); box.right = Math.min(box.right, outer.right); }
      if (style.overflowY !== 'visible') { box.top = Math.max(box.top, outer.top); box.bottom = Math.min(box.bottom, outer.bottom); }
    }
    return box;
  }).filter((box) => box.right > box.left && box.bottom > box.top);

  // layer is what floats over the rest of the page together with an element.
  const layer = (element) => {
    for (let e = element; e; e = e.parentElement)
      if (e.matches('dialog[open], [popover]') || ['fixed', 'sticky'].includes(getComputedStyle(e).position)) return e;
    return root;
  };

  const targets = () => [...document.querySelectorAll(controls)]
    .filter((e) => kit.seen(e) && !forReaders(e))
    .map((element) => ({ element, boxes: boxes(element), layer: layer(element) }))
    .filter((target) => target.boxes.length);

  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack;
  const related = (a, b) => a.contains(b) || b.contains(a);

  const overlaps = (all) => {
    const found = [];
    all.forEach((a, i) => all.slice(i + 1).forEach((b) => {
      if (a.layer === b.layer && !related(a.element, b.element) && a.boxes.some((x) => b.boxes.some((y) => meet(x, y))))
        found.push(`${kit.describe(a.element)} and ${kit.describe(b.element)} overlap`);
    }));
    return found;
  };

  // inSentence tells of links whose line holds other text.
  const inSentence = (element) => {
    if (getComputedStyle(element).display !== 'inline') return false;
    for (const a of ancestors(element)) {
      if (getComputedStyle(a).display === 'inline') continue;
      return a.innerText.trim().length > [...a.querySelectorAll(controls)].reduce((sum, e) => sum + e.innerText.trim().length, 0) + 3;
    }
    return false;
  };

  const union = (list) => list.reduce((u, b) => ({
    left: Math.min(u.left, b.left), right: Math.max(u.right, b.right), top: Math.min(u.top, b.top), bottom: Math.max(u.bottom, b.bottom),
  }));
  const distance = (x, y, box) => Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));

  // tooSmall is WCAG 2.2, 2.5.8: 24 px, or so much room around it that a
  // circle of 24 px meets no other target, or a link in a sentence. A label is
  // part of its control.
  const tooSmall = (all) => {
    const sized = all.map(({ element, boxes }) => {
      const labels = [...(element.labels ?? [])].filter(kit.seen).map((l) => l.getBoundingClientRect());
      const box = union([...boxes, ...labels]);
      const small = box.right - box.left < 24 - 0.01 || box.bottom - box.top < 24 - 0.01;
      return { element, box, small, x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    });
    const crowded = (a) => sized.find((b) => b !== a && !related(a.element, b.element) &&
      (distance(a.x, a.y, b.box) < 12 || (b.small && Math.hypot(a.x - b.x, a.y - b.y) < 24)));
    return sized.filter((a) => a.small && !inSentence(a.element)).flatMap((a) => {
      const neighbour = crowded(a);
      if (!neighbour) return [];
      const size = `${Math.round(a.box.right - a.box.left)} × ${Math.round(a.box.bottom - a.box.top)} px`;
      return [`${kit.describe(a.element)} is a target of ${size}, too close to ${kit.describe(neighbour.element)}`];
    });
  };

  return () => {
    const all = targets();
    return [...tooWide(), ...clipped(), ...beyond(), ...overlaps(all), ...tooSmall(all)];
  };
})();
