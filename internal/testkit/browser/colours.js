// Tells looks apart: what the judgement of a text's colours depends on. Runs
// inside of pages, after kit.js.
const colours = (() => {
  const clear = 'rgba(0, 0, 0, 0)';
  const grounds = new Map();

  // ground is what is behind the text of an element: the backgrounds of it and
  // its ancestors, down to the first that nothing shines through.
  const ground = (element) => {
    if (!element) return '';
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity].join(' ');
      const covers = backgroundColor.startsWith('rgb(') && backgroundImage === 'none' && opacity === '1';
      const behind = covers ? '' : ground(element.parentElement);
      grounds.set(element, own === `${clear} none 1` ? behind : `${own} / ${behind}`);
    }
    return grounds.get(element);
  };

  // link is what tells a link from the text around it.
  const link = (element) => {
    const a = element.closest('a');
    if (!a) return '';
    const around = getComputedStyle(a.parentElement);
    return [getComputedStyle(a).textDecorationLine, around.color, around.fontWeight].join(' ');
  };

  const look = (element) => {
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    return [color, fontSize, fontWeight, textShadow, ground(element), link(element)].join('; ');
  };

  const texts = function* () {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (walker.currentNode.data.trim()) yield walker.currentNode.parentElement;
    yield* document.querySelectorAll('input:not([type=hidden]), select, textarea');
  };

  // The first element of each look, by look.
  return () => {
    const found = {};
    for (const element of texts()) if (kit.seen(element)) found[look(element)] ??= kit.path(element);
    return found;
  };
})();
