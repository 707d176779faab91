/* Canonical decomposition: unicode.h. */
#include "base/unicode.h"
#include "base/search.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Characters that are made of others: the second part, and pairs of a character and its first part, which may be made
 * of others again. A second part of 0: there is none. They are those of the Unicode Character Database, version 14,
 * without the ideographs for compatibility (U+F900 and on, U+2F800 and on), which are single characters, and without
 * the syllables of Hangul, which are computed. */
/* clang-format off */
static const struct {
    uint32_t second;
    const char *pairs;
} made[] = {
    {0x0000, "\u0340\u0300\u0341\u0301\u0343\u0313\u0374\u02b9\u037e;\u0387\u00b7\u1f71\u03ac\u1f73\u03ad"
             "\u1f75\u03ae\u1f77\u03af\u1f79\u03cc\u1f7b\u03cd\u1f7d\u03ce\u1fbb\u0386\u1fbe\u03b9\u1fc9\u0388"
             "\u1fcb\u0389\u1fd3\u0390\u1fdb\u038a\u1fe3\u03b0\u1feb\u038e\u1fee\u0385\u1fef`\u1ff9\u038c"
             "\u1ffb\u038f\u1ffd\u00b4\u2000\u2002\u2001\u2003\u2126\u03a9\u212aK\u212b\u00c5\u2329\u3008"
             "\u232a\u3009"},
    {0x0300, "ÀAÈEÌIÒOÙUàaèeìiòoùuǛÜǜüǸNǹnЀЕЍИѐеѝиḔĒḕēṐŌṑōẀWẁwẦÂầâẰĂằăỀÊềêỒÔồôỜƠờơỪƯừưỲYỳyἂἀἃἁἊἈἋἉἒἐἓἑἚἘἛἙἢἠἣἡἪἨἫἩ"
             "ἲἰἳἱἺἸἻἹὂὀὃὁὊὈὋὉὒὐὓὑὛὙὢὠὣὡὪὨὫὩὰαὲεὴηὶιὸοὺυὼωᾺΑῈΕῊΗ\u1fcd\u1fbfῒϊῚΙ\u1fdd\u1ffeῢϋῪΥ\u1fed\u00a8ῸΟῺΩ"},
    {0x0301, "ÁAÉEÍIÓOÚUÝYáaéeíióoúuýyĆCćcĹLĺlŃNńnŔRŕrŚSśsŹZźzǗÜǘüǴGǵgǺÅǻåǼÆǽæǾØǿø\u0344\u0308\u0385\u00a8ΆΑΈΕΉΗΊΙ"
             "ΌΟΎΥΏΩΐϊάαέεήηίιΰϋόούυώωϓϒЃГЌКѓгќкḈÇḉçḖĒḗēḮÏḯïḰKḱkḾMḿmṌÕṍõṒŌṓōṔPṕpṸŨṹũẂWẃwẤÂấâẮĂắăẾÊếêỐÔốôỚƠớơỨƯứưἄἀ"
             "ἅἁἌἈἍἉἔἐἕἑἜἘἝἙἤἠἥἡἬἨἭἩἴἰἵἱἼἸἽἹὄὀὅὁὌὈὍὉὔὐὕὑὝὙὤὠὥὡὬὨὭὩ\u1fce\u1fbf\u1fde\u1ffe"},
    {0x0302, "ÂAÊEÎIÔOÛUâaêeîiôoûuĈCĉcĜGĝgĤHĥhĴJĵjŜSŝsŴWŵwŶYŷyẐZẑzẬẠậạỆẸệẹỘỌộọ"},
    {0x0303, "ÃAÑNÕOãañnõoĨIĩiŨUũuṼVṽvẪÂẫâẴĂẵăẼEẽeỄÊễêỖÔỗôỠƠỡơỮƯữưỸYỹy"},
    {0x0304, "ĀAāaĒEēeĪIīiŌOōoŪUūuǕÜǖüǞÄǟäǠȦǡȧǢÆǣæǬǪǭǫȪÖȫöȬÕȭõȰȮȱȯȲYȳyӢИӣиӮУӯуḠGḡgḸḶḹḷṜṚṝṛᾱαᾹΑῑιῙΙῡυῩΥ"},
    {0x0306, "ĂAăaĔEĕeĞGğgĬIĭiŎOŏoŬUŭuЎУЙИйиўуӁЖӂжӐАӑаӖЕӗеḜȨḝȩẶẠặạᾰαᾸΑῐιῘΙῠυῨΥ"},
    {0x0307, "ĊCċcĖEėeĠGġgİIŻZżzȦAȧaȮOȯoḂBḃbḊDḋdḞFḟfḢHḣhṀMṁmṄNṅnṖPṗpṘRṙrṠSṡsṤŚṥśṦŠṧšṨṢṩṣṪTṫtẆWẇwẊXẋxẎYẏyẛſ"},
    {0x0308, "ÄAËEÏIÖOÜUäaëeïiöoüuÿyŸYΪΙΫΥϊιϋυϔϒЁЕЇІёеїіӒАӓаӚӘӛәӜЖӝжӞЗӟзӤИӥиӦОӧоӪӨӫөӬЭӭэӰУӱуӴЧӵчӸЫӹыḦHḧhṎÕṏõṺŪṻūẄW"
             "ẅwẌXẍxẗt"},
    {0x0309, "ẢAảaẨÂẩâẲĂẳăẺEẻeỂÊểêỈIỉiỎOỏoỔÔổôỞƠởơỦUủuỬƯửưỶYỷy"},
    {0x030a, "ÅAåaŮUůuẘwẙy"},
    {0x030b, "ŐOőoŰUűuӲУӳу"},
    {0x030c, "ČCčcĎDďdĚEěeĽLľlŇNňnŘRřrŠSšsŤTťtŽZžzǍAǎaǏIǐiǑOǒoǓUǔuǙÜǚüǦGǧgǨKǩkǮƷǯʒǰjȞHȟh"},
    {0x030f, "ȀAȁaȄEȅeȈIȉiȌOȍoȐRȑrȔUȕuѶѴѷѵ"},
    {0x0311, "ȂAȃaȆEȇeȊIȋiȎOȏoȒRȓrȖUȗu"},
    {0x0313, "ἀαἈΑἐεἘΕἠηἨΗἰιἸΙὀοὈΟὐυὠωὨΩῤρ"},
    {0x0314, "ἁαἉΑἑεἙΕἡηἩΗἱιἹΙὁοὉΟὑυὙΥὡωὩΩῥρῬΡ"},
    {0x031b, "ƠOơoƯUưu"},
    {0x0323, "ḄBḅbḌDḍdḤHḥhḲKḳkḶLḷlṂMṃmṆNṇnṚRṛrṢSṣsṬTṭtṾVṿvẈWẉwẒZẓzẠAạaẸEẹeỊIịiỌOọoỢƠợơỤUụuỰƯựưỴYỵy"},
    {0x0324, "ṲUṳu"},
    {0x0325, "ḀAḁa"},
    {0x0326, "ȘSșsȚTțt"},
    {0x0327, "ÇCçcĢGģgĶKķkĻLļlŅNņnŖRŗrŞSşsŢTţtȨEȩeḐDḑdḨHḩh"},
    {0x0328, "ĄAąaĘEęeĮIįiŲUųuǪOǫo"},
    {0x032d, "ḒDḓdḘEḙeḼLḽlṊNṋnṰTṱtṶUṷu"},
    {0x032e, "ḪHḫh"},
    {0x0330, "ḚEḛeḬIḭiṴUṵu"},
    {0x0331, "ḆBḇbḎDḏdḴKḵkḺLḻlṈNṉnṞRṟrṮTṯtẔZẕzẖh"},
    {0x0338, "\u219a\u2190\u219b\u2192\u21ae\u2194\u21cd\u21d0\u21ce\u21d4\u21cf\u21d2\u2204\u2203\u2209\u2208"
             "\u220c\u220b\u2224\u2223\u2226\u2225\u2241\u223c\u2244\u2243\u2247\u2245\u2249\u2248\u2260="
             "\u2262\u2261\u226d\u224d\u226e<\u226f>\u2270\u2264\u2271\u2265\u2274\u2272\u2275\u2273\u2278\u2276"
             "\u2279\u2277\u2280\u227a\u2281\u227b\u2284\u2282\u2285\u2283\u2288\u2286\u2289\u2287\u22ac\u22a2"
             "\u22ad\u22a8\u22ae\u22a9\u22af\u22ab\u22e0\u227c\u22e1\u227d\u22e2\u2291\u22e3\u2292\u22ea\u22b2"
             "\u22eb\u22b3\u22ec\u22b4\u22ed\u22b5\u2adc\u2add"},
    {0x0342, "ἆἀἇἁἎἈἏἉἦἠἧἡἮἨἯἩἶἰἷἱἾἸἿἹὖὐὗὑὟὙὦὠὧὡὮὨὯὩᾶα\u1fc1\u00a8ῆη\u1fcf\u1fbfῖιῗϊ\u1fdf\u1ffeῦυῧϋῶω"},
    {0x0345, "ᾀἀᾁἁᾂἂᾃἃᾄἄᾅἅᾆἆᾇἇᾈἈᾉἉᾊἊᾋἋᾌἌᾍἍᾎἎᾏἏᾐἠᾑἡᾒἢᾓἣᾔἤᾕἥᾖἦᾗἧᾘἨᾙἩᾚἪᾛἫᾜἬᾝἭᾞἮᾟἯᾠὠᾡὡᾢὢᾣὣᾤὤᾥὥᾦὦᾧὧᾨὨᾩὩᾪὪᾫὫᾬὬᾭὭᾮὮᾯὯᾲὰᾳα"
             "ᾴάᾷᾶᾼΑῂὴῃηῄήῇῆῌΗῲὼῳωῴώῷῶῼΩ"},
    {0x05b4, "\ufb1d\u05d9"},
    {0x05b7, "\ufb1f\u05f2\ufb2e\u05d0"},
    {0x05b8, "\ufb2f\u05d0"},
    {0x05b9, "\ufb4b\u05d5"},
    {0x05bc, "\ufb30\u05d0\ufb31\u05d1\ufb32\u05d2\ufb33\u05d3\ufb34\u05d4\ufb35\u05d5\ufb36\u05d6\ufb38\u05d8"
             "\ufb39\u05d9\ufb3a\u05da\ufb3b\u05db\ufb3c\u05dc\ufb3e\u05de\ufb40\u05e0\ufb41\u05e1\ufb43\u05e3"
             "\ufb44\u05e4\ufb46\u05e6\ufb47\u05e7\ufb48\u05e8\ufb49\u05e9\ufb4a\u05ea"},
    {0x05bf, "\ufb4c\u05d1\ufb4d\u05db\ufb4e\u05e4"},
    {0x05c1, "\ufb2a\u05e9\ufb2c\ufb49"},
    {0x05c2, "\ufb2b\u05e9\ufb2d\ufb49"},
    {0x0653, "\u0622\u0627"},
    {0x0654, "\u0623\u0627\u0624\u0648\u0626\u064a\u06c0\u06d5\u06c2\u06c1\u06d3\u06d2"},
    {0x0655, "\u0625\u0627"},
    {0x093c, "\u0929\u0928\u0931\u0930\u0934\u0933\u0958\u0915\u0959\u0916\u095a\u0917\u095b\u091c\u095c\u0921"
             "\u095d\u0922\u095e\u092b\u095f\u092f"},
    {0x09bc, "\u09dc\u09a1\u09dd\u09a2\u09df\u09af"},
    {0x09be, "\u09cb\u09c7"},
    {0x09d7, "\u09cc\u09c7"},
    {0x0a3c, "\u0a33\u0a32\u0a36\u0a38\u0a59\u0a16\u0a5a\u0a17\u0a5b\u0a1c\u0a5e\u0a2b"},
    {0x0b3c, "\u0b5c\u0b21\u0b5d\u0b22"},
    {0x0b3e, "\u0b4b\u0b47"},
    {0x0b56, "\u0b48\u0b47"},
    {0x0b57, "\u0b4c\u0b47"},
    {0x0bbe, "\u0bca\u0bc6\u0bcb\u0bc7"},
    {0x0bd7, "\u0b94\u0b92\u0bcc\u0bc6"},
    {0x0c56, "\u0c48\u0c46"},
    {0x0cc2, "\u0cca\u0cc6"},
    {0x0cd5, "\u0cc0\u0cbf\u0cc7\u0cc6\u0ccb\u0cca"},
    {0x0cd6, "\u0cc8\u0cc6"},
    {0x0d3e, "\u0d4a\u0d46\u0d4b\u0d47"},
    {0x0d57, "\u0d4c\u0d46"},
    {0x0dca, "\u0dda\u0dd9\u0ddd\u0ddc"},
    {0x0dcf, "\u0ddc\u0dd9"},
    {0x0ddf, "\u0dde\u0dd9"},
    {0x0f72, "\u0f73\u0f71"},
    {0x0f74, "\u0f75\u0f71"},
    {0x0f80, "\u0f76\u0fb2\u0f78\u0fb3\u0f81\u0f71"},
    {0x0fb5, "\u0f69\u0f40\u0fb9\u0f90"},
    {0x0fb7, "\u0f43\u0f42\u0f4d\u0f4c\u0f52\u0f51\u0f57\u0f56\u0f5c\u0f5b\u0f93\u0f92\u0f9d\u0f9c\u0fa2\u0fa1"
             "\u0fa7\u0fa6\u0fac\u0fab"},
    {0x102e, "\u1026\u1025"},
    {0x1b35, "\u1b06\u1b05\u1b08\u1b07\u1b0a\u1b09\u1b0c\u1b0b\u1b0e\u1b0d\u1b12\u1b11\u1b3b\u1b3a\u1b3d\u1b3c"
             "\u1b40\u1b3e\u1b41\u1b3f\u1b43\u1b42"},
    {0x3099, "がかぎきぐくげけごこざさじしずすぜせぞそだたぢちづつでてどとばはびひぶふべへぼほゔうゞゝガカギキグク"
             "ゲケゴコザサジシズスゼセゾソダタヂチヅツデテドトバハビヒブフベヘボホヴウヷワヸヰヹヱヺヲヾヽ"},
    {0x309a, "ぱはぴひぷふぺへぽほパハピヒプフペヘポホ"},
    {0x110ba, "\U0001109a\U00011099\U0001109c\U0001109b\U000110ab\U000110a5"},
    {0x11127, "\U0001112e\U00011131\U0001112f\U00011132"},
    {0x1133e, "\U0001134b\U00011347"},
    {0x11357, "\U0001134c\U00011347"},
    {0x114b0, "\U000114bc\U000114b9"},
    {0x114ba, "\U000114bb\U000114b9"},
    {0x114bd, "\U000114be\U000114b9"},
    {0x115af, "\U000115ba\U000115b8\U000115bb\U000115b9"},
    {0x11930, "\U00011938\U00011935"},
    {0x1d165, "\U0001d15e\U0001d157\U0001d15f\U0001d158\U0001d1bb\U0001d1b9\U0001d1bc\U0001d1ba"},
    {0x1d16e, "\U0001d160\U0001d15f\U0001d1bd\U0001d1bb\U0001d1be\U0001d1bc"},
    {0x1d16f, "\U0001d161\U0001d15f\U0001d1bf\U0001d1bb\U0001d1c0\U0001d1bc"},
    {0x1d170, "\U0001d162\U0001d15f"},
    {0x1d171, "\U0001d163\U0001d15f"},
    {0x1d172, "\U0001d164\U0001d15f"},
};
/* clang-format on */

/* The same by the character, sorted: made at the first use. */
static struct pair {
    uint32_t from, first, second;
} pairs[1059];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Characters that stand on the one before them: those whose order may differ. */
static const struct range {
    uint32_t first, last;
} marks_of_letters[] = {
    {0x0300, 0x034e},   {0x0350, 0x036f},   {0x0483, 0x0487},   {0x0591, 0x05bd},   {0x05bf, 0x05bf},
    {0x05c1, 0x05c2},   {0x05c4, 0x05c5},   {0x05c7, 0x05c7},   {0x0610, 0x061a},   {0x064b, 0x065f},
    {0x0670, 0x0670},   {0x06d6, 0x06dc},   {0x06df, 0x06e4},   {0x06e7, 0x06e8},   {0x06ea, 0x06ed},
    {0x0711, 0x0711},   {0x0730, 0x074a},   {0x07eb, 0x07f3},   {0x07fd, 0x07fd},   {0x0816, 0x0819},
    {0x081b, 0x0823},   {0x0825, 0x0827},   {0x0829, 0x082d},   {0x0859, 0x085b},   {0x0898, 0x089f},
    {0x08ca, 0x08e1},   {0x08e3, 0x08ff},   {0x093c, 0x093c},   {0x094d, 0x094d},   {0x0951, 0x0954},
    {0x09bc, 0x09bc},   {0x09cd, 0x09cd},   {0x09fe, 0x09fe},   {0x0a3c, 0x0a3c},   {0x0a4d, 0x0a4d},
    {0x0abc, 0x0abc},   {0x0acd, 0x0acd},   {0x0b3c, 0x0b3c},   {0x0b4d, 0x0b4d},   {0x0bcd, 0x0bcd},
    {0x0c3c, 0x0c3c},   {0x0c4d, 0x0c4d},   {0x0c55, 0x0c56},   {0x0cbc, 0x0cbc},   {0x0ccd, 0x0ccd},
    {0x0d3b, 0x0d3c},   {0x0d4d, 0x0d4d},   {0x0dca, 0x0dca},   {0x0e38, 0x0e3a},   {0x0e48, 0x0e4b},
    {0x0eb8, 0x0eba},   {0x0ec8, 0x0ecb},   {0x0f18, 0x0f19},   {0x0f35, 0x0f35},   {0x0f37, 0x0f37},
    {0x0f39, 0x0f39},   {0x0f71, 0x0f72},   {0x0f74, 0x0f74},   {0x0f7a, 0x0f7d},   {0x0f80, 0x0f80},
    {0x0f82, 0x0f84},   {0x0f86, 0x0f87},   {0x0fc6, 0x0fc6},   {0x1037, 0x1037},   {0x1039, 0x103a},
    {0x108d, 0x108d},   {0x135d, 0x135f},   {0x1714, 0x1715},   {0x1734, 0x1734},   {0x17d2, 0x17d2},
    {0x17dd, 0x17dd},   {0x18a9, 0x18a9},   {0x1939, 0x193b},   {0x1a17, 0x1a18},   {0x1a60, 0x1a60},
    {0x1a75, 0x1a7c},   {0x1a7f, 0x1a7f},   {0x1ab0, 0x1abd},   {0x1abf, 0x1ace},   {0x1b34, 0x1b34},
    {0x1b44, 0x1b44},   {0x1b6b, 0x1b73},   {0x1baa, 0x1bab},   {0x1be6, 0x1be6},   {0x1bf2, 0x1bf3},
    {0x1c37, 0x1c37},   {0x1cd0, 0x1cd2},   {0x1cd4, 0x1ce0},   {0x1ce2, 0x1ce8},   {0x1ced, 0x1ced},
    {0x1cf4, 0x1cf4},   {0x1cf8, 0x1cf9},   {0x1dc0, 0x1dff},   {0x20d0, 0x20dc},   {0x20e1, 0x20e1},
    {0x20e5, 0x20f0},   {0x2cef, 0x2cf1},   {0x2d7f, 0x2d7f},   {0x2de0, 0x2dff},   {0x302a, 0x302f},
    {0x3099, 0x309a},   {0xa66f, 0xa66f},   {0xa674, 0xa67d},   {0xa69e, 0xa69f},   {0xa6f0, 0xa6f1},
    {0xa806, 0xa806},   {0xa82c, 0xa82c},   {0xa8c4, 0xa8c4},   {0xa8e0, 0xa8f1},   {0xa92b, 0xa92d},
    {0xa953, 0xa953},   {0xa9b3, 0xa9b3},   {0xa9c0, 0xa9c0},   {0xaab0, 0xaab0},   {0xaab2, 0xaab4},
    {0xaab7, 0xaab8},   {0xaabe, 0xaabf},   {0xaac1, 0xaac1},   {0xaaf6, 0xaaf6},   {0xabed, 0xabed},
    {0xfb1e, 0xfb1e},   {0xfe20, 0xfe2f},   {0x101fd, 0x101fd}, {0x102e0, 0x102e0}, {0x10376, 0x1037a},
    {0x10a0d, 0x10a0d}, {0x10a0f, 0x10a0f}, {0x10a38, 0x10a3a}, {0x10a3f, 0x10a3f}, {0x10ae5, 0x10ae6},
    {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11046, 0x11046},
    {0x11070, 0x11070}, {0x1107f, 0x1107f}, {0x110b9, 0x110ba}, {0x11100, 0x11102}, {0x11133, 0x11134},
    {0x11173, 0x11173}, {0x111c0, 0x111c0}, {0x111ca, 0x111ca}, {0x11235, 0x11236}, {0x112e9, 0x112ea},
    {0x1133b, 0x1133c}, {0x1134d, 0x1134d}, {0x11366, 0x1136c}, {0x11370, 0x11374}, {0x11442, 0x11442},
    {0x11446, 0x11446}, {0x1145e, 0x1145e}, {0x114c2, 0x114c3}, {0x115bf, 0x115c0}, {0x1163f, 0x1163f},
    {0x116b6, 0x116b7}, {0x1172b, 0x1172b}, {0x11839, 0x1183a}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11c3f, 0x11c3f},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x16af0, 0x16af4}, {0x16b30, 0x16b36},
    {0x16ff0, 0x16ff1}, {0x1bc9e, 0x1bc9e}, {0x1d165, 0x1d169}, {0x1d16d, 0x1d172}, {0x1d17b, 0x1d182},
    {0x1d185, 0x1d18b}, {0x1d1aa, 0x1d1ad}, {0x1d242, 0x1d244}, {0x1e000, 0x1e006}, {0x1e008, 0x1e018},
    {0x1e01b, 0x1e021}, {0x1e023, 0x1e024}, {0x1e026, 0x1e02a}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e8d0, 0x1e8d6}, {0x1e944, 0x1e94a},
};

enum { HANGUL = 0xac00, LEADING = 0x1100, VOWEL = 0x1161, TRAILING = 0x11a7, VOWELS = 21, TRAILINGS = 28 };
enum { MOST_MARKS = 128 }; /* bytes */
enum { SYLLABLES = 19 * VOWELS * TRAILINGS };

static int by_character(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static void sort_pairs(void)
{
    struct pair *to = pairs;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        for (const char *p = made[i].pairs; *p; to++) {
            to->second = made[i].second;
            p += leat_unicode_read(p, 4, &to->from);
            p += leat_unicode_read(p, 4, &to->first);
        }
    assert(to == pairs + sizeof pairs / sizeof *pairs);
    qsort(pairs, sizeof pairs / sizeof *pairs, sizeof *pairs, by_character);
}

static const struct pair *find(uint32_t c)
{
    pthread_once(&once, sort_pairs);
    const size_t n = sizeof pairs / sizeof *pairs, low = LEAT_BISECT(i, 0, n, pairs[i].from < c);
    return low < n && pairs[low].from == c ? &pairs[low] : NULL;
}

static bool is_mark(uint32_t c)
{
    const size_t n = sizeof marks_of_letters / sizeof *marks_of_letters,
                 low = c < 0x300 ? n : LEAT_BISECT(i, 0, n, marks_of_letters[i].last < c);
    return low < n && c >= marks_of_letters[low].first;
}

unsigned leat_unicode_read(const char *text, size_t n, uint32_t *c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    const unsigned bytes = *p < 0x80 ? 1 : *p < 0xc0 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf8 ? 4 : 0;
    *c = bytes == 1 ? *p : bytes ? *p & (0x7fu >> bytes) : 0;
    if (bytes > n)
        return 0;
    for (unsigned i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    return bytes && *c >= least[bytes] && *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff) ? bytes : 0;
}

static size_t encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

/* Appends a character. Marks on one letter stand in the order of their numbers, so that their order does not count. */
static size_t append(char *out, size_t used, size_t *marks, uint32_t c)
{
    char bytes[4];
    const size_t n = encode(c, bytes);
    size_t at = used;
    for (size_t before = used; is_mark(c) && before > *marks; at = before) {
        uint32_t other;
        while ((out[--before] & 0xc0) == 0x80)
            ;
        if (!leat_unicode_read(out + before, used - before, &other) || other <= c)
            break;
    }
    if (!is_mark(c) || used - *marks > MOST_MARKS) /* letters have a few */
        *marks = used + n;
    memmove(out + at + n, out + at, used - at);
    memcpy(out + at, bytes, n);
    return used + n;
}

static size_t decompose(char *out, size_t used, size_t *marks, uint32_t c)
{
    uint32_t behind[4]; /* the second parts, the last of them first */
    unsigned n = 0;
    if (c >= HANGUL && c < HANGUL + SYLLABLES) {
        const uint32_t syllable = c - HANGUL, trailing = syllable % TRAILINGS;
        if (trailing)
            behind[n++] = TRAILING + trailing;
        behind[n++] = VOWEL + syllable / TRAILINGS % VOWELS;
        c = LEADING + syllable / (VOWELS * TRAILINGS);
    }
    for (const struct pair *p; n < 4 && (p = find(c)); c = p->first)
        if (p->second)
            behind[n++] = p->second;
    used = append(out, used, marks, c);
    while (n)
        used = append(out, used, marks, behind[--n]);
    return used;
}

size_t leat_unicode_decompose(const char *text, size_t n, char *out)
{
    size_t used = 0, marks = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        const unsigned bytes = (unsigned char)text[i] < 0x80 ? 0 : leat_unicode_read(text + i, n - i, &c);
        if (bytes) {
            used = decompose(out, used, &marks, c);
        } else {
            out[used++] = text[i];
            marks = used;
        }
        i += bytes ? bytes : 1;
    }
    return used;
}
