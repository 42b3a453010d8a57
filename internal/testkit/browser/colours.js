// Tells looks apart: what the judgement of a text's colours depends on. Runs
// inside of pages, after kit.js.
const colours = (() => {
  const clear = 'rgba(0, 0, 0, 0)';
  const grounds = new Map();
  const besides = new Map();

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

  // beside says whether a block has text outside of links, and whether more than in
  // them: only where it has is a link to be told from the text around it.
  const beside = (block) => {
    if (!besides.has(block)) {
      const length = { true: 0, false: 0 };
      const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const { data, parentElement } = walker.currentNode;
        length[parentElement.closest('a') !== null] += data.trim().length;
      }
      besides.set(block, length[false] === 0 ? '' : length[false] > length[true] ? 'in a text' : 'by a text');
    }
    return besides.get(block);
  };

  // link is what tells a link from the text around it; '' without such a text.
  const link = (a) => {
    let block = a.parentElement;
    while (block !== document.body && getComputedStyle(block).display.startsWith('inline')) block = block.parentElement;
    if (!beside(block)) return '';
    const around = getComputedStyle(block);
    const own = getComputedStyle(a);
    return ['link', beside(block), own.color, own.fontWeight, own.textDecorationLine, around.color, around.fontWeight].join('; ');
  };

  const look = (element) => {
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    return [color, fontSize, fontWeight, textShadow, ground(element)].join('; ');
  };

  const texts = function* () {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (walker.currentNode.data.trim()) yield walker.currentNode.parentElement;
    yield* document.querySelectorAll('input:not([type=hidden]), select, textarea');
  };

  // The first element of each look, by look.
  return () => {
    const found = {};
    const add = (element, as) => { if (as && kit.seen(element)) found[as] ??= kit.path(element); };
    for (const element of texts()) add(element, look(element));
    for (const a of document.querySelectorAll('a[href]')) add(a, link(a));
    return found;
  };
})();
